// Package gooselock guards the migrations of goose by a lock of Holdfast.
package gooselock
