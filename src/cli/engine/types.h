// Generated from src/facts/types.toml by `make generate`: edit that, not this.
// What --type takes.
#pragma once

#define TYPE_CHOICES "f32|f16|bf16|q8|q4|q8r|q8rh|q4m|q4k|q4t|q6|q4x|q3|q5m|q5k"
// Those whose inputs are rounded in groups, and those that moments count in.
#define GROUP_TYPES "q8, q4, q4m, q4k, q4t, q6, q4x, q3, q5m and q5k"
#define MOMENT_TYPES "q8, q4, q4t, q6, q4x and q3"
#define WEIGHED_TYPES "q8", "q4", "q4t", "q6", "q4x", "q3"
// Types in groups that are smaller than q8.
#define SMALL_TYPES "q4", "q4m", "q4k", "q4t", "q6", "q4x", "q3", "q5m", "q5k"
