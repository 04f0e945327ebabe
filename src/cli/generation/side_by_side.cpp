// cli: `phasor run --batch`: lines side by side. A line enters as another is over, and is printed
// in its order.
#include <deque>

#include "runner.h"
#include "sampling.h"

namespace cli {
namespace {

constexpr size_t kWaiting = 8;  // for each that runs: so one long line does not keep the others

class SideBySide {
 public:
  explicit SideBySide(Runner* runner) : r_(*runner) {}

  // Reads no line that has yet to be written while others run, and prints what is over before it
  // waits: who waits for an answer before the next line gets it.
  void run(Inputs* inputs) {
    Input input;
    bool held = false, more = true;
    while (r_.e.going_on()) {
      print_done();
      size_t running = 0, here = 0;
      for (const Batched& one : lines_) {
        here += one.parts.size();
        for (const Part& part : one.parts) running += part.done ? 0 : 1;
      }
      while (more && running < r_.batch && here < kWaiting * r_.batch + r_.o.samples) {
        if (running == 0) print_done();
        if (running != 0 && !held && !inputs->ready()) break;
        if (!held) more = inputs->next(&input);
        held = more && running != 0 && !input.is_ids &&
               input.text.size() + r_.e.prompt.size() > r_.e.limits.text_bytes;
        if (!more || held) break;  // a larger arena has nothing of what runs
        running += enter(input);
        here += lines_.back().parts.size();
      }
      if (running == 0 && !more) return print_done();
      if (running != 0 && !advance()) return;
    }
  }

 private:
  // A line, a sentence of it (--split) or a sample (--samples).
  struct Part {
    string why;
    TokenIds out;
    vector<phasor_hypothesis> found;  // --beam
    phasor_job job = PHASOR_JOB_INIT;
    bool done = false;
  };
  struct Batched {
    Line line;
    vector<Part> parts;  // one that is done where nothing runs
    double entered = 0;
  };

  // How many of it run.
  size_t enter(const Input& input) {
    lines_.emplace_back();
    Batched& one = lines_.back();
    Line& line = one.line;
    r_.read(input, &line);
    one.entered = now();
    const phasor_side& side = r_.e.side_of(r_.e.input_side());
    const bool runs = line.why.empty() && known_ids(line.ids, side, &line.why) && !line.nothing;
    one.parts.resize(runs ? line.parts(r_.o.samples) : 1);
    one.parts[0].done = !runs;
    if (!runs) return 0;
    for (size_t i = 0; i < one.parts.size(); ++i)
      make_job(line, line.part(i), uint32_t(i), &one.parts[i]);
    return one.parts.size();
  }

  void make_job(const Line& line, const TokenIds& ids, uint32_t i, Part* part) const {
    const size_t outputs = r_.beams.wanted() ? r_.beams.n_best() : 1;
    part->out.resize(outputs * r_.capacity);
    if (r_.beams.wanted()) part->found.resize(outputs, sized<phasor_hypothesis>());
    part->job.ids = ids.data();
    part->job.count = count_of(ids);
    part->job.out = part->out.data();
    part->job.outputs = part->found.data();
    part->job.capacity = uint32_t(r_.capacity);
    part->job.n_best = count_of(part->found);
    phasor_random_seed(&part->job.random,
                       seed_of(r_.seed, line.number, line.sentences.empty() ? i : 0));
  }

  phasor_status step(uint32_t* left) {
    Engine& e = r_.e;
    const uint32_t count = count_of(jobs_);
    if (!r_.beams.wanted())
      return phasor_jobs_step(e.session, jobs_.data(), count, &r_.options, left, &e.error);
    const phasor_beam_options search = r_.beams.options(r_.options);
    return phasor_beam_jobs_step(e.session, jobs_.data(), count, &search, left, &e.error);
  }

  // A step of all that run. False after an error, which has been printed.
  bool advance() {
    jobs_.clear();
    for (const Batched& one : lines_)
      for (const Part& part : one.parts)
        if (!part.done) jobs_.push_back(part.job);
    uint32_t left = 0;
    const double begin = now();
    r_.e.error.text[0] = 0;
    const phasor_status status = step(&left);
    r_.seconds += now() - begin;
    ++r_.all.steps;
    if (status != PHASOR_OK) return r_.status = 1, r_.e.fail();
    size_t at = 0;
    for (Batched& one : lines_)
      for (Part& part : one.parts)
        if (!part.done) take(jobs_[at++], &one, &part);
    return true;
  }

  void take(const phasor_job& job, Batched* one, Part* part) const {
    part->job = job;
    part->done = job.finish != 0 || job.status != PHASOR_OK;
    one->line.seconds = now() - one->entered;
    if (job.status != PHASOR_OK)
      part->why = r_.e.error.text[0] != 0
                      ? r_.e.said()
                      : phasor_status_name(static_cast<phasor_status>(job.status));
  }

  void print_done() {
    const auto over = [](const Part& part) { return part.done; };
    while (!output_failed() && !lines_.empty() &&
           std::all_of(lines_.front().parts.begin(), lines_.front().parts.end(), over)) {
      Batched& one = lines_.front();
      if (one.line.why.empty() && !one.line.nothing && collect(&one))
        (void)r_.complete(&one.line, r_.batch, false);
      r_.print(one.line, false);
      lines_.pop_front();
    }
    output_flush();
    r_.tell();
  }

  // The line's outputs, from those of its parts. False: one of them is bad.
  bool collect(Batched* one) const {
    Line& line = one->line;
    for (size_t i = 0; i < one->parts.size() && line.why.empty(); ++i) {
      const Part& part = one->parts[i];
      const TokenIds& ids = line.part(i);
      line.why = part.why;
      if (r_.beams.wanted()) {
        const vector<Output> found = r_.beams.outputs(part.found.data(), part.job.found,
                                                      r_.prompt_of(ids), r_.options.forced_count);
        line.outputs.insert(line.outputs.end(), found.begin(), found.end());
      } else {
        line.outputs.push_back(
            r_.output_of(line, ids, part.out.data(), part.job.made, part.job.finish, uint32_t(i)));
      }
    }
    return line.why.empty();
  }

  Runner& r_;
  std::deque<Batched> lines_;
  vector<phasor_job> jobs_;  // those that run
};

}  // namespace

void side_by_side(Runner* runner, Inputs* inputs) { SideBySide(runner).run(inputs); }

}  // namespace cli
