// Answers the questions of the oracle with the work: one JSON list in, one JSON list out.
import { existsSync, readFileSync, writeSync } from "node:fs";
import { pathToFileURL } from "node:url";

const load = (name) => import(pathToFileURL(`${process.argv[2]}/lib/${name}.mjs`));
const { toRoman } = await load("numerals");
const { isLeap, daysIn } = existsSync("lib/years.mjs") ? await load("years") : {};
const answer = ([, name, number]) => {
  try {
    return { to_roman: toRoman, is_leap: isLeap, days_in: daysIn }[name](number);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
};
const text = JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(answer));
for (let at = 0; at < text.length; ) at += writeSync(1, text.slice(at));
