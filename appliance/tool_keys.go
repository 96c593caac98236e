// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"fmt"
	"os"

	"windhover/vqf/seal"
)

// ReadPassphrase finds the key of encrypted files for a tool on the command line:
// in file if that is given, which may be a pipe, else as the daemon does, in the systemd credential
// vqf-key or the environment variable VLLM_VQF_KEY. It is nil where there is none.
func ReadPassphrase(file string) (*seal.Key, error) {
	if file != "" {
		return seal.ReadKeyFile(file)
	}
	return (&passphrase{getenv: os.Getenv}).key()
}

// ReadTrust gives the keys that a tool on the command line is told to trust: a
// directory, the file of one key, the key in the environment variable
// VLLM_VQF_SIGN_PUB, each if it is given. It is nil if none is. Here, unlike for
// the daemon, a directory has to be there: it was asked for.
func ReadTrust(dir, file string) (*seal.Trust, error) {
	if dir != "" {
		fi, err := os.Stat(dir)
		if err != nil {
			return nil, err
		}
		if !fi.IsDir() {
			return nil, fmt.Errorf("%s is a file: trust takes a directory of public keys, one key goes by its file", dir)
		}
	}
	t, err := loadTrust(dir, os.Getenv)
	if err != nil {
		return nil, err
	}
	if file != "" {
		one, err := seal.ReadTrusted(file)
		if err != nil {
			return nil, err
		}
		t.SM2, t.Minisign = append(t.SM2, one.SM2...), append(t.Minisign, one.Minisign...)
	}
	if dir == "" && file == "" && len(t.SM2) == 0 {
		return nil, nil
	}
	return t, nil
}
