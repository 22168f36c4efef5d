import { createHash } from 'node:crypto';
import { ownerRows } from '@wellspring/store/collections/owners';
import type { Store } from '@wellspring/store/port';
import nodemailer from 'nodemailer';
import { SendError, type SendOne, sendWithin, textOf } from './arguments.ts';

const CALL = '$.send.email';

/**
 * `{subject?, text?, html?}`: a mail to the owner of the workflow, and to nobody else.
 * @param url `smtp://user:password@host:587?from=…`; null: not configured
 */
export function createEmailSend(store: Store, url: string | null, timeoutMs: number): SendOne {
  const server = url === null ? undefined : new URL(url);
  const from = server?.searchParams.get('from') ?? '';
  const transport = server && openTransport(server, timeoutMs);

  async function recipient(ownerId: string): Promise<string> {
    const owner: { email: string } | undefined = await ownerRows(store, ownerId).get(ownerId);
    if (!owner?.email)
      throw new SendError(`${CALL} failed: the owner of the workflow has no e-mail address.`);
    return owner.email;
  }

  return async (request, { id, owner_id, ended, assertHeld }) => {
    if (!transport) {
      throw new SendError(`${CALL} is not configured: the operator sets WELLSPRING_SMTP_URL.`);
    }
    const [subject = '', text, html] = ['subject', 'text', 'html'].map((name) => textOf(request, CALL, name));
    if (text === undefined && html === undefined) throw new SendError(`${CALL} needs text or html.`);
    const to = await recipient(owner_id);
    assertHeld();
    const name = createHash('sha256').update(id).digest('hex').slice(0, 32);
    const mail = {
      from,
      to: { name: '', address: to },
      subject,
      ...(text !== undefined && { text }),
      ...(html !== undefined && { html }),
      // A repetition after a crash is recognized by it.
      messageId: `<${name}@${from.split('@')[1]}>`,
    };
    const limits = { timeoutMs, ended, failed: `${CALL} failed` };
    await sendWithin(limits, (signal) => transport.sendMail({ ...mail, signal }));
  };
}

function openTransport({ protocol, hostname, port, username, password }: URL, timeoutMs: number) {
  const secure = protocol === 'smtps:';
  const auth =
    username === '' ? undefined : { user: decodeURIComponent(username), pass: decodeURIComponent(password) };
  return nodemailer.createTransport({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (secure ? 465 : 587) : Number(port),
    secure,
    ...(auth && { auth }),
    connectionTimeout: timeoutMs,
    greetingTimeout: timeoutMs,
    socketTimeout: timeoutMs,
    // Contents come from users.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}
