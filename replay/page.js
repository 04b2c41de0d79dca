(function () {
  "use strict";
  var data = JSON.parse(document.getElementById("data").textContent);
  var steps = data.steps, last = steps.length - 1, at = last, timer = null;
  if (last < 0) return;
  document.documentElement.classList.add("js");
  var slider = document.getElementById("slider"), play = document.getElementById("play");
  var messages = Array.prototype.map.call(document.querySelectorAll(".said li"), function (node) {
    return { node: node, session: node.dataset.s, live: node.dataset.v ? JSON.parse(node.dataset.v) : null };
  });
  var story = Array.prototype.map.call(document.querySelectorAll(".story li"), function (node) {
    return { node: node, i: node.dataset.i === undefined ? null : +node.dataset.i, from: +node.dataset.from };
  });
  var heads = document.querySelectorAll(".head"), none = document.getElementById("none");
  var bar = slider.closest(".bar");
  slider.max = last;

  function state(i) {
    var found = {};
    for (var n = 0; n <= i; n++) {
      var change = steps[n].s;
      for (var key in change) found[key] = change[key];
    }
    return found;
  }

  function text(id, words) { document.getElementById(id).textContent = words; }

  function flag(words, hot) {
    var node = document.createElement("span");
    node.className = hot ? "flag hot" : "flag";
    node.textContent = words;
    return node;
  }

  function shown(message, session, position) {
    if (message.session !== session) return false;
    if (!message.live) return true;
    return message.live.some(function (span) { return span[0] <= position && (span[1] === null || position < span[1]); });
  }

  function show(i, quiet) {
    at = Math.max(0, Math.min(last, i));
    var step = steps[at], now = state(at), count = 0;
    slider.value = at;
    slider.setAttribute("aria-valuetext", step.t + ", " + step.w);
    text("when", step.t);
    text("what", step.w + "  @" + step.p);
    Array.prototype.forEach.call(heads, function (head) { head.style.left = step.x + "%"; });
    messages.forEach(function (message) {
      var is = shown(message, now.session || "", step.p);
      message.node.hidden = !is;
      message.node.classList.remove("was");
      if (is && message.live) count++;
    });
    none.hidden = count > 0;
    var current = null;
    story.forEach(function (each) {
      var later = each.i === null ? each.from > at : each.i > at;
      each.node.classList.toggle("later", later);
      each.node.classList.toggle("now", each.i === at);
      if (each.i === null || later) return;
      current = each.node;
    });
    story.forEach(function (each) { each.node.classList.toggle("last", each.node === current); });
    text("st-position", "@" + step.p);
    text("st-event", (at + 1) + " of " + (last + 1));
    text("st-session", now.session || "none");
    text("st-title", now.title || "\u2013");
    text("st-messages", String(count));
    text("st-model", now.model || "default");
    text("st-policy", now.policy || "not recorded");
    var flags = document.getElementById("st-flags");
    flags.textContent = "";
    if (now.turn) flags.appendChild(flag("in a turn"));
    if (now.suspended) flags.appendChild(flag("suspended", true));
    if (now.pending) flags.appendChild(flag("to be resumed", true));
    if (now.ended) flags.appendChild(flag("ended: " + now.ended, true));
    if (!flags.firstChild) flags.textContent = "\u2013";
    if (quiet) return;
    if (current) center(current);
    var newest = null;
    messages.forEach(function (message) { if (!message.node.hidden) newest = message.node; });
    if (newest) center(newest);
  }

  // The box may reach below the bar: what is there cannot be seen, so a box that scrolls can be scrolled on by as much.
  function center(node) {
    var box = node.parentNode;
    box.style.paddingBottom = "";
    var frame = box.getBoundingClientRect(), below = Math.max(0, frame.bottom - bar.getBoundingClientRect().top);
    var seen = frame.height - below;
    if (seen < 80) { below = 0; seen = frame.height; }
    if (below && box.scrollHeight > box.clientHeight) box.style.paddingBottom = below + "px";
    var place = node.getBoundingClientRect();
    box.scrollTop += place.top - frame.top - Math.max(0, (seen - place.height) / 2);
  }

  function stop() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
  }

  function toggle() {
    if (timer) return stop();
    if (at === last) show(0);
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(function () {
      if (at === last) stop(); else show(at + 1);
    }, 450);
  }

  function go(i) { stop(); show(i); }

  slider.addEventListener("input", function () { go(+slider.value); });
  play.addEventListener("click", toggle);
  document.getElementById("back").addEventListener("click", function () { go(at - 1); });
  document.getElementById("on").addEventListener("click", function () { go(at + 1); });
  document.addEventListener("click", function (event) {
    var target = event.target.closest("[data-go],.story li[data-i]");
    if (target) return go(+(target.dataset.go || target.dataset.i));
    var track = event.target.closest(".track");
    if (!track) return;
    var box = track.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * 100, best = 0;
    steps.forEach(function (step, n) { if (Math.abs(step.x - x) <= Math.abs(steps[best].x - x)) best = n; });
    go(best);
  });
  document.addEventListener("keydown", function (event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    var onButton = event.target.tagName === "BUTTON" || event.target.tagName === "SUMMARY";
    var key = event.key;
    if (key === "ArrowLeft") go(event.shiftKey ? mark(-1) : at - 1);
    else if (key === "ArrowRight") go(event.shiftKey ? mark(1) : at + 1);
    else if (key === "Home") go(0);
    else if (key === "End") go(last);
    else if (key === " " && !onButton) toggle();
    else return;
    event.preventDefault();
  });

  function mark(direction) {
    for (var n = at + direction; n >= 0 && n <= last; n += direction) if (steps[n].m) return n;
    return direction < 0 ? 0 : last;
  }

  show(last, true);
}());
