import { lock } from "holdfast";

const guard = await lock("job", { timeout: 3 });
const token: string = guard.token;
