-- A role and a schema for locks: postgres://HOST/DATABASE?search_path=locks
-- The owner makes the table with "holdfast init". Replace the names, and set a password.
CREATE ROLE locks_owner LOGIN;
CREATE ROLE jobs LOGIN;
CREATE SCHEMA locks AUTHORIZATION locks_owner;
GRANT USAGE ON SCHEMA locks TO jobs;
ALTER DEFAULT PRIVILEGES FOR ROLE locks_owner IN SCHEMA locks
  GRANT SELECT, INSERT, UPDATE ON TABLES TO jobs;
-- For "holdfast sweep", "doctor" and "bench", in addition:
ALTER DEFAULT PRIVILEGES FOR ROLE locks_owner IN SCHEMA locks
  GRANT DELETE ON TABLES TO jobs;
