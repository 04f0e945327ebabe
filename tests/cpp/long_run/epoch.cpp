#include "epoch.h"

#include <algorithm>

#include "heap_counter.h"
#include "runtime/session.h"

namespace long_run {

using namespace generator;

const char* const kOperationNames[kOperations] = {
    "steps",    "stopped", "forks",           "cuts",   "clears", "saves",
    "restores", "encodes", "encodes stopped", "refused"};

namespace {

constexpr uint32_t kSessions = 3, kMostSequences = 6, kStates = 5, kSources = 3, kRows = 24;
constexpr uint32_t kLookEvery = 64;  // operations, at all sequences of a session

struct Saved {
  std::vector<unsigned char> bytes;
  std::size_t size = 0;  // 0: nothing is in it
  uint32_t source = 0, script = 0, length = 0;
};

struct Stop {
  uint32_t after, calls;
};
int stop_after(void* user, uint32_t, uint32_t, uint32_t) {
  Stop* const stop = static_cast<Stop*>(user);
  return stop->calls++ == stop->after ? 1 : 0;
}

struct Player {
  Player(const Opened& opened, const phasor_limits& limits, cli::Pool* none)
      : running(opened, limits, none),
        ring(ring_of(opened.inside().window, limits.chunk, limits.target)) {}
  const phasor::Session& inside() const {
    return *reinterpret_cast<const phasor::Session*>(running.session());
  }
  Running running;
  Ring ring;
  Shadow sequences[kMostSequences];
};

class Epoch {
 public:
  Epoch(Choices* choices, const Opened& opened, const Plan& plan, Counts* counts);
  bool finite() const { return oracle_.finite(); }
  void run();

 private:
  Choices* const c_;
  const Opened& o_;
  const Plan plan_;
  Counts* const counts_;
  phasor_limits limits_;
  Tokens tokens_;
  std::vector<Sequences::Tokens> sources_;
  Oracle oracle_;
  std::vector<Player> players_;
  Saved saved_[kStates];
  std::vector<unsigned char> seen_;  // a state that is looked at
  phasor_error error_ = PHASOR_ERROR_INIT;
  const char* doing_ = "nothing";

  phasor_limits any_limits();
  std::vector<Sequences::Tokens> any_sources();
  void operation(Player* p);
  void step(Player* p, bool stopping);
  void compare(const Player& p, const phasor_item* items, uint32_t count);
  void stopped(Player* p, const phasor_item* items, uint32_t count, uint32_t after);
  void fork(Player* p);
  void truncate(Player* p);
  void clear(Player* p, uint32_t sequence);
  void save(Player* p);
  void restore(Player* p);
  void encode(Player* p, bool stopping);
  void refused(Player* p);
  void look(const Player& p, uint32_t sequence);
  void look_at_state(const Player& p, uint32_t sequence);
  void look_at_pages(const Player& p, bool none);
  void look_at_all(const Player& p);
  void spoil();

  uint32_t any_sequence() { return c_->below(limits_.sequences); }
  const Expected& expected(const Shadow& q) const {
    return oracle_.at(o_.sourced() ? q.source : 0, q.script, q.length);
  }
  void hold(bool holds, const char* what) const {
    if (!holds) throw Broken(std::string(doing_) + ": " + what);
  }
  void hold(phasor_status status, phasor_status wanted) const {
    if (status != wanted)
      throw Broken(std::string(doing_) + ": " + phasor_status_name(status) + " in place of " +
                   phasor_status_name(wanted) + ", " + error_.text);
  }
  void begin(Operation operation) {
    doing_ = kOperationNames[operation];
    ++counts_->operations[operation];
    fold(operation);
  }
  void fold(uint64_t value) {
    counts_->hash = (counts_->hash ^ value) * 0x9E3779B97F4A7C15u;
    counts_->hash ^= counts_->hash >> 31;
  }
};

// ---- a model, its oracle, its sessions

Epoch::Epoch(Choices* choices, const Opened& opened, const Plan& plan, Counts* counts)
    : c_(choices),
      o_(opened),
      plan_(plan),
      counts_(counts),
      limits_(any_limits()),
      tokens_(choices, limits_.target, plan.bits,
              opened.inside().descriptor.sides[phasor::kDecoder].vocabulary,
              opened.inside().descriptor.stacks[phasor::kDecoder].segments),
      sources_(any_sources()),
      oracle_(opened, limits_, tokens_, sources_) {
  if (!finite()) return;
  const uint32_t chunks[kSessions] = {c_->between(1, 4), c_->between(2, 12), c_->between(5, 24)};
  cli::Pool none;
  players_.reserve(kSessions);
  for (const uint32_t chunk : chunks) {
    phasor_limits limits = limits_;
    limits.chunk = chunk;
    limits.tables = c_->below(2);
    players_.emplace_back(opened, limits, &none);
  }
  for (Saved& s : saved_) s.bytes.resize(oracle_.largest_state());
  seen_.resize(oracle_.largest_state());
}

phasor_limits Epoch::any_limits() {
  phasor_limits l{};
  l.struct_size = sizeof l;
  const uint32_t target = phasor::longest_sequence(o_.inside(), phasor::kDecoder),
                 source = phasor::longest_sequence(o_.inside(), phasor::kEncoder);
  const uint32_t most = c_->between(40, kMostPositions);
  need(phasor_limits_for(o_.model(), std::min(source != 0 ? source : 20, 20u),
                         std::min(target != 0 ? target : most, most), &l) == PHASOR_OK,
       "limits_for");
  l.sequences = c_->between(2, kMostSequences);
  l.text_bytes = 0;
  l.logit_rows = l.best_rows = kRows;
  l.cache_type = c_->of<uint32_t>({PHASOR_CACHE_F32, PHASOR_CACHE_F16, PHASOR_CACHE_Q8});
  std::size_t size = 0;
  if (phasor_session_size(&size, o_.model(), &l, nullptr) != PHASOR_OK)
    l.cache_type = PHASOR_CACHE_F32;  // scores that need keys in f32
  return l;
}

std::vector<Sequences::Tokens> Epoch::any_sources() {
  std::vector<Sequences::Tokens> sources(o_.sourced() ? kSources : 0);
  const phasor::Descriptor& d = o_.inside().descriptor;
  for (Sequences::Tokens& t : sources)
    for (uint32_t i = c_->between(1, limits_.source); i > 0; --i) {
      t.ids.push_back(c_->below(d.sides[phasor::kEncoder].vocabulary));
      if (d.stacks[phasor::kEncoder].segments != 0)
        t.segments.push_back(c_->below(d.stacks[phasor::kEncoder].segments));
    }
  return sources;
}

void Epoch::run() {
  const uint64_t end = counts_->steps + plan_.steps, half = counts_->steps + plan_.steps / 2;
  bool spoilt = !plan_.spoil && !plan_.lose_page;
  const HeapCounter heap;
  for (uint64_t n = 0; counts_->steps < end; ++n) {
    Player* const p = &players_[c_->below(kSessions)];
    operation(p);
    if (n % kLookEvery == 0) {
      for (uint32_t i = 0; i < limits_.sequences; ++i) look(*p, i);
      look_at_state(*p, any_sequence());
      look_at_pages(*p, false);
    }
    if (spoilt || counts_->steps < half) continue;
    spoilt = true;
    spoil();
    for (const Player& all : players_) look_at_all(all);
  }
  for (Player& p : players_) {
    for (uint32_t i = 0; i < limits_.sequences; ++i) {
      look(p, i);
      look_at_state(p, i);
      clear(&p, i);
    }
    look_at_pages(p, true);
  }
  counts_->allocations += heap.allocations();
}

void Epoch::operation(Player* p) {
  struct Weight {
    Operation operation;
    uint32_t weight;
  };
  static constexpr Weight kWeights[] = {
      {kStep, 60}, {kStop, 5},    {kFork, 8},   {kTruncate, 11},  {kClear, 2},
      {kSave, 5},  {kRestore, 4}, {kEncode, 3}, {kStopEncode, 1}, {kRefused, 1}};
  uint32_t at = c_->below(100);
  const Weight* w = kWeights;
  while (at >= w->weight) at -= w++->weight;
  Operation now = w->operation;
  if (!o_.sourced() && (now == kEncode || now == kStopEncode)) now = kStep;
  switch (now) {
    case kStep:
      return step(p, false);
    case kStop:
      return step(p, true);
    case kFork:
      return fork(p);
    case kTruncate:
      return truncate(p);
    case kClear:
      return clear(p, any_sequence());
    case kSave:
      return save(p);
    case kRestore:
      return restore(p);
    case kEncode:
      return encode(p, false);
    case kStopEncode:
      return encode(p, true);
    default:
      return refused(p);
  }
}

// ---- steps

// One to three sequences with room get tokens of a script that begins as they do; they want logits,
// best tokens or nothing.
void Epoch::step(Player* p, bool stopping) {
  phasor_item items[3];
  const bool best = c_->chance(30);
  uint32_t count = 0, rows = 0, total = 0;
  for (uint32_t tries = c_->of({1u, 1u, 2u, 4u}); tries > 0 && count < 3; --tries) {
    const uint32_t sequence = any_sequence();
    Shadow& q = p->sequences[sequence];
    bool twice = false;
    for (uint32_t i = 0; i < count; ++i) twice = twice || items[i].sequence == sequence;
    if (twice || q.length == limits_.target || (o_.sourced() && q.source == kNoSource)) continue;
    const uint32_t room = limits_.target - q.length;
    const uint32_t wanted = c_->of({1u, 1u, 1u, 2u, 3u, 8u, c_->between(1, 24)});
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = sequence;
    item.count = std::min(wanted, room);
    item.logits = c_->below(3) + (best ? 2 : 0);
    if (best && item.logits == PHASOR_LOGITS_ALL) item.logits = PHASOR_LOGITS_NONE;
    const uint32_t of_item = phasor::wanted_rows(item);
    if (rows + of_item > kRows) item.logits = PHASOR_LOGITS_NONE;
    rows += phasor::wanted_rows(item);
    q.script = tokens_.going_on(c_, q.script, q.length);
    item.ids = tokens_.ids(q.script) + q.length;
    item.segments = tokens_.segments(q.script, q.length);
    items[count++] = item;
    total += item.count;
  }
  if (count == 0) return o_.sourced() && c_->chance(50) ? encode(p, false) : truncate(p);
  begin(stopping ? kStop : kStep);
  const uint32_t layers = o_.inside().layer_count[phasor::kDecoder];
  const uint32_t chunks = (total + p->running.limits.chunk - 1) / p->running.limits.chunk;
  Stop stop = {c_->below(layers * chunks), 0};
  const phasor_callbacks callbacks = {sizeof callbacks, nullptr, stop_after, &stop, nullptr};
  if (stopping) hold(phasor_session_callbacks(p->running.session(), &callbacks), PHASOR_OK);
  const phasor_status status = phasor_step(p->running.session(), items, count, &error_);
  if (stopping) hold(phasor_session_callbacks(p->running.session(), nullptr), PHASOR_OK);
  hold(status, stopping ? PHASOR_STOPPED : PHASOR_OK);
  if (stopping) return stopped(p, items, count, stop.after);
  ++counts_->steps;
  counts_->tokens += total;
  for (uint32_t i = 0; i < count; ++i) {
    Shadow& q = p->sequences[items[i].sequence];
    q.write(p->ring, q.length, q.length + items[i].count);
    q.length += items[i].count;
  }
  compare(*p, items, count);
  for (uint32_t i = 0; i < count; ++i) look(*p, items[i].sequence);
}

// Every row that was asked for.
void Epoch::compare(const Player& p, const phasor_item* items, uint32_t count) {
  phasor_session* const s = p.running.session();
  uint32_t row = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Shadow q = p.sequences[items[i].sequence];
    const uint32_t end = q.length, wanted = phasor::wanted_rows(items[i]);
    for (uint32_t r = 0; r < wanted; ++r, ++row) {
      q.length = end - wanted + r + 1;
      const Expected& e = expected(q);
      const float* const logits = phasor_logits(s, row);
      const bool best = phasor::wants_best(items[i].logits);
      hold((logits == nullptr) == best, "logits where best tokens were wanted, or neither");
      if (!best) {
        const uint64_t hash = hash_of(logits, p.running.width() * sizeof(float));
        hold(hash == e.logits, "other logits than from the start");
        fold(hash);
      }
      uint32_t id = 0;
      float value = 0;
      hold(phasor_argmax(s, row, &id, &value), PHASOR_OK);
      hold(id == e.best && bits_of(value) == e.best_logit, "another best token");
      fold(id);
      ++counts_->rows;
    }
  }
}

// The chunk in which a step was stopped, and those before it, have their places in the ring.
void Epoch::stopped(Player* p, const phasor_item* items, uint32_t count, uint32_t after) {
  const uint32_t layers = o_.inside().layer_count[phasor::kDecoder];
  uint32_t written = (after / layers + 1) * p->running.limits.chunk;
  for (uint32_t i = 0; i < count; ++i) {
    Shadow& q = p->sequences[items[i].sequence];
    const uint32_t n = std::min(written, items[i].count);
    q.write(p->ring, q.length, q.length + n);
    written -= n;
    if (!q.reaches(p->ring, q.length)) {
      q.empty();
      ++counts_->emptied;
    }
    if (q.length == 0) q.empty();
    look(*p, items[i].sequence);
  }
}

// ---- sequences

void Epoch::fork(Player* p) {
  begin(kFork);
  const uint32_t to = any_sequence(), from = any_sequence();
  hold(phasor_sequence_fork(p->running.session(), to, from), PHASOR_OK);
  p->sequences[to] = p->sequences[from];
  look(*p, to);
}

void Epoch::truncate(Player* p) {
  begin(kTruncate);
  const uint32_t sequence = any_sequence();
  Shadow& q = p->sequences[sequence];
  const uint32_t to = c_->chance(60) && q.length != 0
                          ? q.length - c_->below(std::min(q.length, 12u))
                          : c_->below(q.length + 1);
  const bool reaches = q.reaches(p->ring, to);
  hold(phasor_sequence_truncate(p->running.session(), sequence, to),
       reaches ? PHASOR_OK : PHASOR_BAD_INPUT);
  fold(reaches);
  counts_->cut_refused += !reaches;
  if (reaches && to == 0)
    q.empty();
  else if (reaches)
    q.length = to;
  look(*p, sequence);
}

void Epoch::clear(Player* p, uint32_t sequence) {
  begin(kClear);
  hold(phasor_sequence_clear(p->running.session(), sequence), PHASOR_OK);
  p->sequences[sequence].clear();
  look(*p, sequence);
}

void Epoch::save(Player* p) {
  begin(kSave);
  const uint32_t sequence = any_sequence();
  const Shadow& q = p->sequences[sequence];
  Saved& s = saved_[c_->below(kStates)];
  const Expected& e = expected(q);
  hold(phasor_state_size(p->running.session(), sequence, &s.size), PHASOR_OK);
  hold(s.size == e.state_bytes, "a state of another size");
  hold(phasor_state_save(p->running.session(), sequence, s.bytes.data(), s.size), PHASOR_OK);
  s.source = q.source;
  s.script = q.script;
  s.length = q.length;
  const uint64_t hash = hash_of(s.bytes.data(), s.size);
  hold(hash == e.state, "another state than from the start");
  fold(hash);
}

void Epoch::restore(Player* p) {
  Saved& s = saved_[c_->below(kStates)];
  if (s.size == 0) return;
  begin(kRestore);
  const uint32_t sequence = any_sequence();
  Shadow& q = p->sequences[sequence];
  if (c_->chance(20)) {  // a damaged one is refused, and nothing is changed
    unsigned char* const byte = s.bytes.data() + c_->below(static_cast<uint32_t>(s.size));
    const unsigned char bit = static_cast<unsigned char>(1u << c_->below(8));
    *byte ^= bit;
    hold(phasor_state_restore(p->running.session(), sequence, s.bytes.data(), s.size, &error_),
         PHASOR_BAD_STATE);
    *byte ^= bit;
    return look(*p, sequence);
  }
  hold(phasor_state_restore(p->running.session(), sequence, s.bytes.data(), s.size, &error_),
       PHASOR_OK);
  q.restore(p->ring, s.script, s.length, s.source);
  look(*p, sequence);
  look_at_state(*p, sequence);
}

// ---- sources

void Epoch::encode(Player* p, bool stopping) {
  begin(stopping ? kStopEncode : kEncode);
  phasor_item items[3];
  uint32_t sources[3], groups[3];  // of each item
  uint32_t count = 0, in_group = 0;
  const uint32_t first = any_sequence();
  for (uint32_t n = std::min(c_->between(1, 3), limits_.sequences); count < n; ++count) {
    sources[count] = c_->below(kSources);
    const Sequences::Tokens& t = sources_[sources[count]];
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = (first + count) % limits_.sequences;
    item.count = t.count();
    item.ids = t.ids.data();
    if (!t.segments.empty()) item.segments = t.segments.data();
    // Sources share a chunk as long as it holds them.
    const bool shares = count != 0 && in_group + item.count <= p->running.limits.chunk;
    groups[count] = count == 0 ? 0 : groups[count - 1] + (shares ? 0 : 1);
    in_group = shares ? in_group + item.count : item.count;
    items[count] = item;
  }
  const uint32_t layers = o_.inside().layer_count[phasor::kEncoder];
  Stop stop = {c_->below(layers * (groups[count - 1] + 1)), 0};
  const phasor_callbacks callbacks = {sizeof callbacks, nullptr, stop_after, &stop, nullptr};
  if (stopping) hold(phasor_session_callbacks(p->running.session(), &callbacks), PHASOR_OK);
  const phasor_status status = phasor_encode(p->running.session(), items, count, &error_);
  if (stopping) hold(phasor_session_callbacks(p->running.session(), nullptr), PHASOR_OK);
  hold(status, stopping ? PHASOR_STOPPED : PHASOR_OK);
  for (uint32_t i = 0; i < count; ++i) {
    Shadow& q = p->sequences[items[i].sequence];
    q.clear();
    if (!stopping || groups[i] < stop.after / layers) q.source = sources[i];
    look(*p, items[i].sequence);
  }
}

// What must be refused, and change nothing.
void Epoch::refused(Player* p) {
  begin(kRefused);
  const uint32_t sequence = any_sequence();
  const Shadow& q = p->sequences[sequence];
  phasor_session* const s = p->running.session();
  hold(phasor_sequence_truncate(s, sequence, q.length + 1 + c_->below(9)), PHASOR_BAD_INPUT);
  hold(phasor_sequence_fork(s, sequence, limits_.sequences), PHASOR_BAD_INPUT);
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = limits_.target - q.length + 1;
  uint32_t ids[kMostPositions + 1] = {};
  item.ids = ids;
  const bool sourceless = o_.sourced() && q.source == kNoSource;
  hold(phasor_step(s, &item, 1, &error_), sourceless ? PHASOR_BAD_INPUT : PHASOR_FULL);
  item.count = 1;
  ids[0] = o_.inside().descriptor.sides[phasor::kDecoder].vocabulary;
  if (q.length < limits_.target) hold(phasor_step(s, &item, 1, &error_), PHASOR_BAD_INPUT);
  look(*p, sequence);
}

// ---- what is looked at

void Epoch::look(const Player& p, uint32_t sequence) {
  const Shadow& q = p.sequences[sequence];
  phasor_session* const s = p.running.session();
  hold(phasor_sequence_length(s, sequence) == q.length, "another length");
  hold(phasor_sequence_status(s, sequence), PHASOR_OK);
  hold(phasor_sequence_common(s, sequence, tokens_.ids(q.script), q.length) == q.length,
       "other tokens");
  fold(q.length);
}

void Epoch::look_at_state(const Player& p, uint32_t sequence) {
  const Expected& e = expected(p.sequences[sequence]);
  std::size_t size = 0;
  hold(phasor_state_size(p.running.session(), sequence, &size), PHASOR_OK);
  hold(size == e.state_bytes, "a state of another size");
  hold(phasor_state_save(p.running.session(), sequence, seen_.data(), size), PHASOR_OK);
  hold(hash_of(seen_.data(), size) == e.state, "another state than from the start");
}

// A page has as many references as tables name it; at the end none.
void Epoch::look_at_pages(const Player& p, bool none) {
  const phasor::Session& s = p.inside();
  for (const bool ring : {false, true}) {
    const phasor::Pages pages = s.pages(ring);
    const uint64_t count = uint64_t{s.plan.slots} * pages.places;
    for (uint32_t page = 0; page < count; ++page) {
      uint32_t named = 0;
      for (uint32_t i = 0; i < s.plan.slots && !none; ++i)
        for (uint32_t place = 0; place < pages.places; ++place)
          named += pages.table(i)[place] == page + 1;
      hold(pages.references()[page] == named, "a page with another number of references");
    }
  }
  for (uint32_t source = 0; source < s.plan.sequences; ++source) {
    uint32_t named = 0;
    for (uint32_t i = 0; i < s.plan.slots && !none; ++i) named += s.sequences()[i].source == source;
    hold(s.sources()[source].references == named, "a source with another number of references");
  }
}

void Epoch::look_at_all(const Player& p) {
  for (uint32_t i = 0; i < limits_.sequences; ++i) {
    look(p, i);
    look_at_state(p, i);
  }
  look_at_pages(p, false);
}

// A defect, to see that it is found: a bit of a used page, or a reference that nobody gives back.
void Epoch::spoil() {
  for (Player& p : players_)
    for (const bool ring : {true, false}) {
      const phasor::Pages pages = p.inside().pages(ring);
      for (uint32_t page = 0; page < uint64_t{p.inside().plan.slots} * pages.places; ++page) {
        if (pages.references()[page] == 0) continue;
        if (plan_.lose_page)
          ++pages.references()[page];
        else
          pages.page(page)[0] ^= 1;
      }
    }
}

}  // namespace

bool play(Choices* choices, const Opened& opened, const Plan& plan, Counts* counts) {
  Epoch epoch(choices, opened, plan, counts);
  if (epoch.finite()) epoch.run();
  return epoch.finite();
}

}  // namespace long_run
