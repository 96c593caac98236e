// SPDX-License-Identifier: Apache-2.0

package appliance

// Version of this build; scripts/build-deb sets it.
var Version = "0.1.0"
