// Package migratelock guards the migrations of golang-migrate by a lock of Holdfast.
package migratelock
