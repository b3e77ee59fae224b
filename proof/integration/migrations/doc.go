// Package migrations tests adapters/migratelock and adapters/gooselock with golang-migrate, goose and real
// databases: the public tests of both, and processes that are killed and stopped.
package migrations
