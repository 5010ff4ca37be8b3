//go:build !unix

package media

const nonBlocking = 0
