import { createServer } from 'node:http';

/**
 * Receives deliveries in a separate process and reports number and time of each event to its parent (ms of the
 * monotonic clock, which all processes share).
 */
let batch: [n: number, at: number][] = [];

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const { n } = JSON.parse(Buffer.concat(chunks).toString('utf8')) as { n: number };
    if (batch.length === 0) setTimeout(flush, 20);
    batch.push([n, Number(process.hrtime.bigint() / 1000n) / 1000]);
    res.writeHead(200).end();
  });
});

function flush(): void {
  process.send?.({ batch });
  batch = [];
}

server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as { port: number }).port }));
process.on('disconnect', () => process.exit(0));
