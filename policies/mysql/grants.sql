-- A database for locks: mysql://HOST/locks?user=jobs
-- The owner makes the tables with "holdfast init". Replace the names, and set two passwords.
CREATE DATABASE locks;
CREATE USER locks_owner IDENTIFIED BY 'PASSWORD OF THE OWNER';
CREATE USER jobs IDENTIFIED BY 'PASSWORD OF THE JOBS';
GRANT CREATE, SELECT ON locks.* TO locks_owner;
GRANT SELECT, INSERT, UPDATE ON locks.* TO jobs;
-- For "holdfast sweep", "doctor" and "bench", in addition:
GRANT DELETE ON locks.* TO jobs;
