import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { OrchestraError } from '../errors.ts';
import type { Ceiling } from '../preferences/schema.ts';
import type { GatewayKey, ServerParts } from './parts.ts';

/** Who sent a request, as far as money and limits are concerned. */
export interface Caller {
  readonly name: string;
  readonly ceiling: Ceiling;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set before any handler of an authenticated route runs. */
    caller: Caller;
  }
}

/** Guards every route of `app`: a wrong key is a 401 before a byte of the body is read. */
export function authenticate(app: FastifyInstance, { keys, anonymousCeiling }: ServerParts): void {
  const anonymous: Caller = { name: 'anonymous', ceiling: anonymousCeiling };
  const known = keys?.map((key) => ({ key, digest: Buffer.from(key.sha256, 'hex') }));
  // Replaced by the hook below before anything reads it.
  app.decorateRequest('caller', null as unknown as Caller);
  app.addHook('onRequest', (request, reply, done) => {
    if (!known) {
      if (isForeignPage(request.headers)) return done(foreignPage());
      if (isReadByStranger(request)) return done(strangersName());
      request.caller = anonymous;
      return done();
    }
    const key = findKey(presentedSecrets(request.headers), known);
    if (!key) {
      reply.header('www-authenticate', 'Bearer');
      return done(noValidKey());
    }
    request.caller = key;
    done();
  });
}

/**
 * Without keys, any page that a user of this machine has open could spend the operator's money: a browser sends its
 * requests unasked. Pages from loopback are welcome, and so are programs, which send no web origin, and pages from the
 * gateway's own address. Its own host name does not count, since a stranger's name can be made to point here. Nor does
 * the origin `null`: any page gets it by a frame in a sandbox.
 */
function isForeignPage({ origin, host }: IncomingHttpHeaders): boolean {
  if (origin === 'null') return true;
  if (origin === undefined || !/^https?:/i.test(origin) || !URL.canParse(origin)) return false;
  const page = new URL(origin);
  const isOwn = page.host === host && isIP(page.hostname.replace(/^\[|\]$/g, '')) !== 0;
  return !isOwn && !loopbackName.test(page.hostname);
}

/**
 * A page whose own name was made to point here reads without telling an origin, as programs do. What this gateway knows
 * of its callers is not read under a name that a stranger can have.
 */
function isReadByStranger({ method, headers, routeOptions }: FastifyRequest): boolean {
  const isReport = (method === 'GET' || method === 'HEAD') && routeOptions.url?.startsWith('/v1/orchestra/') === true;
  if (!isReport || headers.origin !== undefined || !URL.canParse(`http://${headers.host}`)) return false;
  const { hostname } = new URL(`http://${headers.host}`);
  const isName = hostname.includes('.') && isIP(hostname) === 0;
  return isName && !loopbackName.test(hostname) && !privateName.test(hostname);
}

/** No registry gives these away. A name without a dot is none of theirs either. */
const privateName = /\.(?:local|lan|internal|home\.arpa)$/i;

const loopbackName = /^(?:localhost|.+\.localhost|127(?:\.\d+){3}|\[::1\])$/i;

const foreignPage = () =>
  new OrchestraError('forbidden', 'Web pages from elsewhere may not use this gateway while it has no keys configured.');

const strangersName = () =>
  new OrchestraError('forbidden', 'While it has no keys configured, ask this gateway for that at its IP address.');

const noValidKey = () =>
  new OrchestraError('unauthorized', 'No valid API key was given. Send it as `Authorization: Bearer KEY`.');

/** OpenAI's, Anthropic's and Azure's way; clients that send two of them mean the same key. */
function presentedSecrets(headers: IncomingHttpHeaders): string[] {
  const bearer = /^\s*bearer\s+(.*)$/i.exec(headers.authorization ?? '')?.[1];
  return [bearer, headers['x-api-key'], headers['api-key']].flatMap((value) =>
    typeof value === 'string' && value.trim() !== '' ? [value.trim()] : [],
  );
}

interface KnownKey {
  readonly key: GatewayKey;
  readonly digest: Buffer;
}

/** Looks at every key every time, so that the time taken tells nothing. */
function findKey(secrets: readonly string[], known: readonly KnownKey[]): GatewayKey | undefined {
  let found: GatewayKey | undefined;
  for (const secret of secrets) {
    const digest = createHash('sha256').update(secret).digest();
    for (const candidate of known) {
      if (candidate.digest.length === digest.length && timingSafeEqual(candidate.digest, digest)) {
        found ??= candidate.key;
      }
    }
  }
  return found;
}
