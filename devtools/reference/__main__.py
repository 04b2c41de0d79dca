"""Write the generated pages: `python -m devtools.reference`."""

from devtools.reference import PAGES, ROOT

for path, page in PAGES.items():
    (ROOT / path).write_text(page())
