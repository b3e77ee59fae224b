// Package certstore tests package adapters/certstore with processes that run certmagic, and with pebble, which issues
// their certificates.
package certstore
