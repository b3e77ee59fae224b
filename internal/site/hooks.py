"""Links from a page to a file that is no page lead to that file in the repository."""

import os
import posixpath
from urllib.parse import unquote, urlsplit

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File, InclusionLevel


class SourceLinks(Treeprocessor, Extension):
    def extendMarkdown(self, md):
        self.md = md
        md.treeprocessors.register(self, "source_links", 10)  # before MkDocs resolves links

    def run(self, root):
        for link in root.iter("a"):
            url = urlsplit(link.get("href", ""))
            if url.scheme or url.netloc or not url.path:
                continue
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self.page), unquote(url.path)))
            file = self.files.get_file_from_path(path)
            if file is not None and file.inclusion != InclusionLevel.EXCLUDED:
                continue
            found = os.path.join(self.docs_dir, path)
            if not path.startswith("..") and os.path.exists(found):
                kind = "tree" if os.path.isdir(found) else "blob"
                link.set("href", f"{self.source}/{kind}/{self.version}/{path}")


source_links = SourceLinks()


def on_config(config):
    config.markdown_extensions.append(source_links)
    source_links.docs_dir = config.docs_dir
    source_links.source, source_links.version = config.extra["source"], config.extra["version"]


def on_files(files, config):
    """Adds what the theme would load from another host."""

    def script(path):
        with open(os.path.join(os.environ["HOLDFAST_NODE_MODULES"], path), encoding="utf-8") as file:
            return file.read()

    # The theme's colours fit some kinds of pictures only, so all have Mermaid's own. On a
    # narrow screen a reader moves a wide picture: made small it could not be read.
    plain = """
{
  const own = mermaid.initialize, full = { useMaxWidth: innerWidth > 700 };
  mermaid.initialize = () => own({ startOnLoad: false, flowchart: full, sequence: full, state: full });
}
"""
    for name, content in {
        "mermaid.js": script("mermaid/dist/mermaid.min.js") + plain,
        "mermaid.css": "div.mermaid { background: #fff; color: #000; padding: .5rem; border-radius: .2rem; overflow-x: auto }\n",
        "iframe-worker.js": script("iframe-worker/shim/index.js"),
    }.items():
        files.append(File.generated(config, "assets/npm/" + name, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    source_links.page, source_links.files = page.file.src_uri, files
