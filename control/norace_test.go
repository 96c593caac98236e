// SPDX-License-Identifier: Apache-2.0

//go:build !race

package control

const raceEnabled = false
