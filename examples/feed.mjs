import { createServer } from 'node:http';

/**
 * A feed to poll without the internet: it gets a new item every ten seconds, and shows the last five.
 *
 * node examples/feed.mjs [port]
 */
const [port = '4001'] = process.argv.slice(2);
const EVERY_MS = 10_000;

function feed(now) {
  const newest = Math.floor(now / EVERY_MS);
  const items = Array.from({ length: 5 }, (_, age) => {
    const n = newest - age;
    return `<item><title>Item ${n}</title><link>http://127.0.0.1:${port}/${n}</link><guid>${n}</guid>
      <pubDate>${new Date(n * EVERY_MS).toUTCString()}</pubDate></item>`;
  });
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>Sample</title>${items.join('')}</channel></rss>`;
}

createServer((_req, res) => {
  res.writeHead(200, { 'content-type': 'application/rss+xml' }).end(feed(Date.now()));
}).listen(Number(port), '127.0.0.1', () => console.log(`Feeding on http://127.0.0.1:${port}/`));
