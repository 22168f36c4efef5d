/** Parses JSON documents, one per line. */
export async function* jsonLines(input: AsyncIterable<Buffer>): AsyncGenerator<unknown> {
  let pending: Buffer[] = [];
  for await (const chunk of input) {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield JSON.parse(Buffer.concat([...pending, rest.subarray(0, end)]).toString('utf8'));
      pending = [];
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) pending.push(rest);
  }
}
