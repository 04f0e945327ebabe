// Generated from src/facts/types.toml by `make generate`: edit that, not this.
// What --type takes.
#pragma once

#define TYPE_CHOICES "f32|f16|bf16|q8|q4|q8r|q8rh|q4m|q4k|q4t|q6|q4x|q3"
