import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { getOpenApi, operatorGetOpenApi } from '@wellspring/contract/endpoints/documents';
import { openApiDocument } from '@wellspring/contract/openapi';
import { type Route, route } from '@wellspring/http/bind';
import { pathOf } from '@wellspring/http/path-of';

const ASSETS: Record<string, string> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
  'favicon-32x32.png': 'image/png',
};

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Wellspring API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;

const START = `SwaggerUIBundle({ url: '/v1/openapi.json', dom_id: '#docs', deepLinking: true, persistAuthorization: false });
`;

const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
};

const PAGES: ReadonlySet<string> = new Set(['/docs', '/docs/', '/docs/start.js']);

/** The OpenAPI documents of the two listeners. */
export function documentRoutes(): Route[] {
  return [getOpenApi, operatorGetOpenApi].map((endpoint) => {
    // Bytes, which all connections share: each would hold a copy of a text.
    const document = Buffer.from(JSON.stringify(openApiDocument(endpoint.listener)));
    return route(endpoint, async ({ res }) => {
      res.writeHead(200, {
        'content-type': 'application/json; charset=utf-8',
        'access-control-allow-origin': '*',
      });
      res.end(document);
    });
  });
}

/** A browser, not a client of the API. */
const wantsHtml = (req: IncomingMessage) => req.headers.accept?.includes('text/html') === true;

/** The name of the file with this path. */
function assetOf(path: string): string | undefined {
  const name = path.startsWith('/docs/') ? path.slice('/docs/'.length) : '';
  return Object.hasOwn(ASSETS, name) ? name : undefined;
}

/** Serves the documentation page below `/docs`, to which browsers come from `/`. Returns false for other requests. */
export function createDocsPage(): (req: IncomingMessage, res: ServerResponse) => boolean {
  const assets = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

  async function serve(path: string, res: ServerResponse): Promise<void> {
    if (path === '/') {
      res.writeHead(302, { ...HEADERS, location: '/docs' }).end();
    } else if (path === '/docs' || path === '/docs/') {
      res.writeHead(200, { ...HEADERS, 'content-type': 'text/html; charset=utf-8' }).end(PAGE);
    } else if (path === '/docs/start.js') {
      res.writeHead(200, { ...HEADERS, 'content-type': 'text/javascript' }).end(START);
    } else {
      const name = assetOf(path)!;
      const type = ASSETS[name]!;
      const file = join(assets, name);
      const { size } = await stat(file);
      res.writeHead(200, {
        ...HEADERS,
        'content-type': type,
        'content-length': size,
        'cache-control': 'max-age=3600',
      });
      await pipeline(createReadStream(file), res);
    }
  }

  return (req, res) => {
    const path = pathOf(req);
    const isPage = PAGES.has(path) || assetOf(path) !== undefined || (path === '/' && wantsHtml(req));
    if (!isPage || (req.method !== 'GET' && req.method !== 'HEAD')) return false;
    serve(path, res).catch(() => (res.headersSent ? res.destroy() : res.writeHead(500).end()));
    return true;
  };
}
