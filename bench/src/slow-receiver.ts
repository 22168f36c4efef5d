import { createServer } from 'node:http';

/** Answers each request to `/MS` after that many ms; those to `/never` not at all. */
const server = createServer((req, res) => {
  req.resume();
  const delay = Number(req.url!.slice(1));
  if (!Number.isNaN(delay)) setTimeout(() => res.writeHead(200).end(), delay);
});

server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as { port: number }).port }));
process.on('disconnect', () => process.exit(0));
