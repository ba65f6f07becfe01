// Reporter for `node --test` that writes one line of JSON for each test: its file, its name and its outcome.
// What tests start must not write it, too.
process.env.NODE_OPTIONS = (process.env.NODE_OPTIONS ?? '').replace(/"--test-reporter[^"]*"|--test-reporter\S*/g, '');

export default async function* reporter(source) {
  const names = {};
  for await (const { type, data } of source) {
    if (!['test:start', 'test:pass', 'test:fail'].includes(type)) continue;
    const own = (names[data.file] ??= []);
    own.length = data.nesting;
    own[data.nesting] = data.name;
    if (type === 'test:start') continue;
    // a suite only groups tests; it counts where it fails, as by a failing hook
    if (type === 'test:pass' && data.details?.type === 'suite') continue;
    const left = data.skip !== undefined || data.todo !== undefined;
    const outcome = left ? 'skipped' : type === 'test:pass' ? 'passed' : 'failed';
    yield `${JSON.stringify([data.file ?? '', own.map((each) => each ?? '').join(' > '), outcome])}\n`;
  }
}
