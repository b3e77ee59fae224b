/** An error of the command. The text is the message of the command. */
export class HoldfastError extends Error {
  /** One of the kinds of docs/json.md, for example "denied". */
  readonly kind?: string;
}

/** The command `holdfast` is missing, or cannot be executed. */
export class CommandNotFound extends HoldfastError {}

/** An argument is wrong, for example the name of a lock or an option. */
export class InvalidRequest extends HoldfastError {}

/** The store did not answer. */
export class Unreachable extends HoldfastError {}

/** The client was closed, or its command has ended. Make a new client. */
export class ClientEnded extends HoldfastError {}

/** Another holder has the lock. */
export class Busy extends HoldfastError {
  /** The other holder, as a text for people. */
  readonly holder?: string;
  readonly token?: number;
}

/** The lock is over although it was not released: another client can have it. */
export class Lost extends HoldfastError {}

export interface ClientOptions {
  /** The store, as for the command. Default: what the environment and holdfast.conf name. */
  store?: string;
  /** The TTL, as for the command: "30s", for example. */
  ttl?: string;
  /** The holder, as a text for people. */
  holder?: string;
  /** Further options of the command. */
  options?: string[];
  /** The program. Default: the one that npm installed, or else `holdfast` in PATH. */
  command?: string;
  /** The time in milliseconds in which the work must stop after a loss without a grace. Default: 1000. */
  stopWithin?: number;
  /** Called if the work has not ended by then. Default: ends the program with status 76. */
  onStuck?: () => void;
}

export interface TryOptions {
  /** Takes the lock beside other readers. */
  shared?: boolean;
  /** Takes one of this many slots. */
  slots?: number;
}

export interface LockOptions extends TryOptions {
  /** How many milliseconds to wait at most, before Busy is thrown. Default: no limit. */
  wait?: number;
  /** Waits in the queue. */
  fair?: boolean;
}

/** A lock that is held, from `lock` or Client.acquire. */
export class Guard implements AsyncDisposable {
  private constructor();
  readonly name: string;
  /** Each new holder of a lock gets a higher token. It is exact up to 2 to the power of 53. */
  readonly token: number;
  /** Of a semaphore: the number of its slot, from 1. */
  readonly slot?: number;
  /** Aborted when the lock is lost, with a Lost as its reason. */
  readonly signal: AbortSignal;
  /** Set if another client requests the lock. Then release the lock, or call refuse. */
  readonly yieldRequest: { requested_by?: string; reason?: string } | null;
  /** Throws Lost if the lock is over, or if this program has read no renewal since its deadline. */
  check(): void;
  /** Stores text or bytes in the record of the lock, at most 32,768 bytes. null removes it. */
  store(data: string | Uint8Array | null): Promise<void>;
  /** Answers the client that requests the lock: this program keeps it, for this reason. */
  refuse(reason: string): Promise<void>;
  /** Releases the lock. It throws Lost if the lock was lost before. A second call changes nothing. */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Holds locks through one command, `holdfast hold`. */
export class Client implements AsyncDisposable {
  private constructor();
  /** Starts the command. */
  static open(options?: ClientOptions): Promise<Client>;
  /** Takes a lock, and waits for it. */
  acquire(name: string, options?: LockOptions): Promise<Guard>;
  /** Takes a lock if it is free now, or returns null. */
  tryAcquire(name: string, options?: TryOptions): Promise<Guard | null>;
  /** Runs work under a lock. It is rejected with Lost as soon as the lock is lost. */
  use<T>(name: string, work: (guard: Guard) => T | Promise<T>, options?: LockOptions): Promise<T>;
  /** Releases all locks, and ends the command. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** Takes a lock with a client of its own, which ends when the guard is released. */
export function lock(name: string, options?: ClientOptions & LockOptions): Promise<Guard>;

/** Runs work under a lock of a client of its own, as Client.use does. */
export function use<T>(name: string, work: (guard: Guard) => T | Promise<T>, options?: ClientOptions & LockOptions): Promise<T>;

/** Returns the path of the command that npm installed for this system, or else "holdfast". */
export function findCommand(): string;
