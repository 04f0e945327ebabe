// Level amx's instructions themselves, on any x86-64 under Linux. A processor that has no tiles
// refuses each of them, and the twin does what it asks (refused.h). So encodings, operands, strides
// and their order are those that a processor with tiles would see; where there is one, it runs them
// itself.
#if defined(__x86_64__) && defined(__linux__) && !defined(__ILP32__)
#include "kernels/x86/tile_unit.hpp"
#include "refused.h"
#include "tile_lanes.h"
#include "tile_shapes.h"
#include "tile_twin.h"

using namespace kernel_test;
using refused::Instead;
using refused::Instruction;

namespace {

tile_twin::Tiles tiles;

bool execute(const Instruction& i) {
  void* memory = reinterpret_cast<void*>(i.address);
  if (i.wide != 0) return false;
  const bool has_sib = i.mode != 3 && (i.at[4] & 7) == 4;
  if (i.opcode == 0x49 && i.mode != 3 && i.prefix == 0 && i.reg == 0 && i.second == 0)
    return tiles.configure(static_cast<unsigned char*>(memory) + i.stride);
  if (i.opcode == 0x49 && i.at[4] == 0xC0 && i.prefix == 0 && i.second == 0) return tiles.release();
  if (i.opcode == 0x49 && i.mode == 3 && i.prefix == 3 && i.rm == 0 && i.second == 0)
    return tiles.zero(i.reg);
  if (i.opcode == 0x4B && has_sib && i.prefix == 3 && i.second == 0)
    return tiles.load(i.reg, memory, i.stride);
  if (i.opcode == 0x4B && has_sib && i.prefix == 2 && i.second == 0)
    return tiles.store(i.reg, memory, i.stride);
  if (i.opcode == 0x5E && i.mode == 3 && i.prefix == 3) return tiles.dot(i.reg, i.rm, i.second);
  return false;
}

using Code = Tiled<PlainLanes, TileUnit>;

}  // namespace

TEST_CASE("tiles: the instructions of level amx, executed or by the twin") {
  const bool real = kernels_request_tiles();
  if (!real && refused::processor_has(7, 0, 3, 24)) {
    MESSAGE("skipped: the processor has tiles, this process does not get them");
    return;
  }
  Kernels k = kernels_scalar;
  k.name = "the code of amx";
  k.linear_q8r = Code::linear_int8<Code::Q8r>;
  k.linear16_q8r = Code::linear_int16<Code::Q8r>;
  k.linear_q2r = Code::linear_int8<Code::Q2r>;
  k.linear_q8 = Code::linear_int8<Code::Q8>;
  k.linear_q4 = Code::linear_int8<Code::Q4>;
  k.linear_q4k = Code::linear_int8<Code::Q4k>;
  k.linear_q6 = Code::linear_int8<Code::Q6>;
  const Instead twin(execute);
  check_shapes(k, {2, 16, 17, 26, 33}, {1, 2, 3, 4, 5}, {1, 2, 3});
  check_shapes(k, {64}, {6}, {9});
  CHECK(!tiles.configured());
  CHECK((Instead::executed == 0) == real);
  float few[kLanes], many[kLanes];
  CHECK(Code::peak_int8(few, 1) * 3 == Code::peak_int8(many, 3));
  CHECK(few[0] != many[0]);
}
#endif
