#!/bin/sh
# Gets the newest copy of the database, and runs the application while Litestream replicates. Start it with
#
#   holdfast lead app.db -- /usr/local/bin/litestream.sh
#
set -eu
db=/var/lib/app/app.db
rm -f "$db.new"
litestream restore -if-replica-exists -o "$db.new" "$db"
if [ -e "$db.new" ]; then # not at the very first start
	rm -f "$db-wal" "$db-shm"
	mv "$db.new" "$db"
fi
exec litestream replicate -exec /usr/local/bin/app
