//go:build !unix

package private

const openFlags = 0
