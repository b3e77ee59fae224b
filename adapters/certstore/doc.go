// Package certstore keeps the certificates of certmagic and Caddy in a store of Holdfast.
package certstore
