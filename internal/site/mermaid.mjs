// Runs Mermaid's parser over the pictures in the Markdown files that are named, and prints
// how many there are. A picture that it refuses is named on standard error, with status 1.
//
//   node mermaid.mjs NODE_MODULES FILE...
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import vm from "node:vm";

const [modules, ...files] = process.argv.slice(2);
const { JSDOM } = createRequire(join(resolve(modules), "index.js"))("jsdom");
const dom = new JSDOM("", { runScripts: "outside-only" });
const run = (code) => vm.runInContext(code, dom.getInternalVMContext());
run(readFileSync(join(modules, "mermaid/dist/mermaid.min.js"), "utf8"));
const { mermaid } = dom.window;
mermaid.initialize({ startOnLoad: false });

let pictures = 0;
for (const file of files) {
  const text = readFileSync(file, "utf8");
  for (const { 1: picture, index } of text.matchAll(/^ *```mermaid\n(.*?)^ *```$/gms)) {
    pictures++;
    try {
      const { db } = await mermaid.mermaidAPI.getDiagramFromText(picture);
      db.getTasks?.(); // of a time line, whose dates are read here
    } catch (error) {
      const line = text.slice(0, index).split("\n").length;
      console.error(`${file}:${line}: ${error.message}`);
      process.exitCode = 1;
    }
  }
}
console.log(pictures);
