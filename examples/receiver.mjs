import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

/**
 * Receives webhooks and checks their signature as https://www.standardwebhooks.com describes. Needs Node.js only.
 *
 * node examples/receiver.mjs [port] [whsec_…]
 */
const [port = '4000', secret] = process.argv.slice(2);
const MAX_AGE_SECONDS = 300;

function verified(headers, body) {
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) < MAX_AGE_SECONDS)) return false;
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  // During a rotation of the secret there are two signatures.
  return signatures.split(' ').some((signature) => {
    const given = Buffer.from(signature.slice('v1,'.length), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (req, res) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const trust = secret === undefined ? 'not checked' : verified(req.headers, body) ? 'verified' : 'FORGED';
  console.log(`${req.headers['webhook-id']} signature ${trust}: ${body}`);
  res.writeHead(trust === 'FORGED' ? 401 : 204).end();
}).listen(Number(port), '127.0.0.1', () => console.log(`Receiving on http://127.0.0.1:${port}`));
