import { createServer } from 'node:http';
import { Pool } from 'undici';

/** The baseline: answers a POST and forwards the body, without persistence or guarantees. */
const target = new URL(process.argv[2]!);
const pool = new Pool(target.origin, { connections: 64 });

const server = createServer((req, res) => {
  const chunks: Buffer[] = [];
  req.on('data', (chunk: Buffer) => chunks.push(chunk));
  req.on('end', () => {
    const body = Buffer.concat(chunks);
    res.writeHead(200).end();
    pool
      .request({
        path: target.pathname,
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      .then((answer) => answer.body.dump())
      .catch((error: unknown) => process.stderr.write(`${String(error)}\n`));
  });
});

server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as { port: number }).port }));
process.on('disconnect', () => process.exit(0));
