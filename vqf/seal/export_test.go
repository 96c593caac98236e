// SPDX-License-Identifier: Apache-2.0

package seal

// ReadKeyWithin is ReadKeyFile with another time to wait at a pipe.
var ReadKeyWithin = readKey
