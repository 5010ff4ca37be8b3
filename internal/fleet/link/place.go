package link

import (
	"errors"
	"os"
	"path/filepath"
)

// TokenVariable holds the word that lets a process into a fleet.
const TokenVariable = "SPATE_FLEET_TOKEN"

// Folder is where brokers and workers of a user keep what they have, unless told otherwise.
func Folder(getenv func(string) string) (string, error) {
	root := getenv("XDG_CACHE_HOME")
	if home := getenv("HOME"); root == "" && home != "" {
		root = filepath.Join(home, ".cache")
	}
	if root == "" {
		return "", errors.New("there is no folder for what a fleet keeps: set HOME or XDG_CACHE_HOME")
	}
	return filepath.Join(root, "spate", "fleet"), nil
}

// HostName is what this host calls itself.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}
