// Generated from src/facts/roles.toml by `make generate`: edit that, not this.
// format: the numbers of roles, in the stacks that have them.
#pragma once
#include <stdint.h>

namespace phasor {

constexpr uint32_t kRoleRotary = 1;
constexpr uint32_t kRoleT5Bias = 2;
constexpr uint32_t kRoleAlibi = 3;
constexpr uint32_t kRoleEmbedding = 1;
constexpr uint32_t kRolePositions = 2;
constexpr uint32_t kRoleSegments = 3;
constexpr uint32_t kRoleEmbeddingNorm = 4;
constexpr uint32_t kRoleProjection = 6;
constexpr uint32_t kRoleSinusoid = 8;
constexpr uint32_t kRoleOwnRow = 9;
constexpr uint32_t kRolePerLayer = 10;
constexpr uint32_t kRolePerLayerProjection = 12;
constexpr uint32_t kRolePerLayerNorm = 14;
constexpr uint32_t kRoleAttentionBefore = 0x10;
constexpr uint32_t kRoleQkv = 0x20;
constexpr uint32_t kRoleQkvScale = 0x22;
constexpr uint32_t kRoleV = 0x24;
constexpr uint32_t kRoleTaps = 0x26;
constexpr uint32_t kRoleTapsBias = 0x27;
constexpr uint32_t kRoleRelativeKeys = 0x30;
constexpr uint32_t kRoleRelativeValues = 0x31;
constexpr uint32_t kRoleRelativeQueries = 0x32;
constexpr uint32_t kRoleQNorm = 0x38;
constexpr uint32_t kRoleKNorm = 0x3A;
constexpr uint32_t kRoleScore = 0x3C;
constexpr uint32_t kRoleAttentionInner = 0x3E;
constexpr uint32_t kRoleAttentionOut = 0x40;
constexpr uint32_t kRoleAttentionAfter = 0x48;
constexpr uint32_t kRoleCrossBefore = 0x50;
constexpr uint32_t kRoleCrossQ = 0x58;
constexpr uint32_t kRoleCrossKv = 0x60;
constexpr uint32_t kRoleCrossScore = 0x64;
constexpr uint32_t kRoleCrossOut = 0x68;
constexpr uint32_t kRoleCrossAfter = 0x70;
constexpr uint32_t kRoleFfnBefore = 0x80;
constexpr uint32_t kRoleFfnIn = 0x88;
constexpr uint32_t kRoleFfnScale = 0x8A;
constexpr uint32_t kRoleXielu = 0x8C;
constexpr uint32_t kRoleFfnInner = 0x8E;
constexpr uint32_t kRoleFfnOut = 0x90;
constexpr uint32_t kRoleFfnAfter = 0x98;
constexpr uint32_t kRolePerLayerGate = 0xA0;
constexpr uint32_t kRolePerLayerOut = 0xA2;
constexpr uint32_t kRolePerLayerAfter = 0xA4;
constexpr uint32_t kRoleVNorm = 0xA6;
constexpr uint32_t kRoleLayerScale = 0xA8;
constexpr uint32_t kRoleFinalNorm = 0xF0;
constexpr uint32_t kRoleOutputWeight = 1;
constexpr uint32_t kRoleOutputBias = 2;
constexpr uint32_t kRoleHead = 3;
constexpr uint32_t kRoleHeadNorm = 5;
constexpr uint32_t kRoleClassifier = 7;
// Of a block: the first in RareTensors, and the first of its stack's last norm.
constexpr uint32_t kFirstRareRole = 0xA0;
constexpr uint32_t kFirstFinalRole = 0xF0;

// Of a key's stack.
constexpr const char* kPlaceNames[] = {"kind", "source", "encoder", "target", "decoder", "output"};

}  // namespace phasor
