// Answers the questions of the oracle with the work: one JSON list in, one JSON list out.
import { readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const { toRoman } = await import(pathToFileURL(`${process.argv[2]}/lib/numerals.mjs`));
const answer = ([, , number]) => {
  try {
    return toRoman(number);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
};
const text = JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(answer));
for (let at = 0; at < text.length; ) at += writeSync(1, text.slice(at));
