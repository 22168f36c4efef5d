/**
 * Parses JSON documents, one per line.
 * @param maxBytes of a line. @throws RangeError for a longer one
 */
export async function* jsonLines(
  input: AsyncIterable<Buffer>,
  maxBytes = Number.POSITIVE_INFINITY,
): AsyncGenerator<unknown> {
  let pending: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of input) {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      yield JSON.parse(Buffer.concat([...pending, rest.subarray(0, end)]).toString('utf8'));
      pending = [];
      bytes = 0;
      rest = rest.subarray(end + 1);
    }
    if (rest.length > 0) pending.push(rest);
    bytes += rest.length;
    if (bytes > maxBytes) throw new RangeError(`A line is longer than ${maxBytes} bytes`);
  }
}
