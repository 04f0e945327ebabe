// Runs the fast suites against each mutant (tools/make/mutants.py): the doctest cases that this
// program is linked with, and generated models. Each of these is a unit.
//
//   driver OUT [NUMBER…]   the mutants of OUT/mutants.tsv, or these; writes OUT/outcome.tsv
//
// First every unit runs once in a process of its own and says which mutants it sees: where the
// changed value differs from the right one. Then for each mutant a process runs the units that see
// it until one fails, crashes, is stopped by a sanitizer or takes far too long: first those that
// killed most mutants of the same file in a second. A mutant that no unit sees has survived.
//
// JOBS processes at a time; units of at most UNIT_SECONDS seconds of a processor; GENERATED models;
// with UNITS='limits of' the units alone whose name has this. `make mutants` does so twice: first
// with units of a tenth of a second, then with slower ones for what survived without a reason.
#define DOCTEST_CONFIG_IMPLEMENT
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"
#include "generator/model_generator.h"
#include "properties/properties.h"
#include "properties/trial.h"
#include "schemata.h"

int mutants::chosen = 0;
unsigned char* mutants::seen = nullptr;

extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=512:"
         "exitcode=99:symbolize=0";
}
extern "C" const char* __ubsan_default_options() { return "exitcode=99:symbolize=0"; }

namespace {

struct Unit {
  std::string name;
  std::function<bool()> holds;
  double seconds = 0;
  std::vector<unsigned char> sees;  // by the mutant's number
};

// ---- the units

std::vector<std::string> case_names;
struct Names : doctest::IReporter {
  explicit Names(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData& all) override {
    for (unsigned i = 0; i < all.num_data; ++i) case_names.push_back(all.data[i]->m_name);
  }
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_REPORTER("names", 1, Names);

bool run_case(const std::string& name) {
  std::string filter;
  for (const char c : name)
    filter += c == ',' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  doctest::Context context;
  context.setOption("test-case", filter.c_str());
  context.setOption("abort-after", 1);
  context.setOption("no-colors", true);
  return context.run() == 0;
}

void add_cases(std::vector<Unit>* units) {
  doctest::Context context;
  const char* const words[] = {"driver", "--list-test-cases", "--reporters=names"};
  context.applyCommandLine(3, words);
  context.run();
  for (const std::string& name : case_names)
    if (name.find("generated: every model") != 0)  // those have units of their own
      units->push_back({name, [name] { return run_case(name); }, 0, {}});
}

bool try_model(uint64_t seed) {
  cli::Pool pool;
  if (!pool.start(3)) return false;
  try {
    generator::Choices choices(~seed);
    (void)generator::check_properties(&choices, generator::generate_model(seed), &pool);
    return true;
  } catch (const generator::Broken&) {
    return false;
  }
}

void add_models(std::vector<Unit>* units, uint64_t count) {
  for (uint64_t seed = 0; seed < count; ++seed)
    units->push_back(
        {"generated model " + std::to_string(seed), [seed] { return try_model(seed); }, 0, {}});
}

// ---- processes

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

// The seconds of a processor that this process may still use.
void allow(double seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec =
      static_cast<suseconds_t>((seconds - double(timer.it_value.tv_sec)) * 1e6);
  setitimer(ITIMER_PROF, &timer, nullptr);
}

void be_quiet() {
  const int nothing = open("/dev/null", O_WRONLY);
  dup2(nothing, 1);
  if (std::getenv("MUTANT_OUTPUT") == nullptr) dup2(nothing, 2);
  close(nothing);
}

// Some processes at a time; `done(job, status)` is called for each that has ended.
class Jobs {
 public:
  Jobs(size_t most, std::function<void(size_t, int)> done) : most_(most), done_(done) {}
  template <class F>
  void start(size_t job, F work) {
    while (running_.size() >= most_) wait_for_one();
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0) std::abort();
    if (child == 0) {
      be_quiet();
      std::_Exit(work());
    }
    running_[child] = job;
  }
  void finish() {
    while (!running_.empty()) wait_for_one();
  }

 private:
  void wait_for_one() {
    int status = 0;
    const pid_t child = wait(&status);
    const auto found = running_.find(child);
    if (found == running_.end()) return;
    const size_t job = found->second;
    running_.erase(found);
    done_(job, status);
  }
  size_t most_;
  std::function<void(size_t, int)> done_;
  std::map<pid_t, size_t> running_;
};

template <class T>
T* shared(size_t count) {
  void* const p =
      mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) std::abort();
  return static_cast<T*>(p);
}

// What each unit sees of the mutants 1 … last. A unit that takes longer than `most` seconds is left
// out; one that fails without a mutant ends the program.
void record(std::vector<Unit>* units, size_t last, size_t jobs, double most) {
  bool sound = true;
  double* const seconds = shared<double>(units->size());
  unsigned char* const seen = shared<unsigned char>(units->size() * (last + 2));
  Jobs all(jobs, [&](size_t i, int status) {
    Unit& unit = (*units)[i];
    unit.seconds = std::max(seconds[i], 0.0);  // the timer has steps
    unit.sees.assign(seen + i * (last + 2), seen + (i + 1) * (last + 2));
    if (status == 0) return;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) {
      std::printf("left out, takes more than %.1f s: %s\n", most, unit.name.c_str());
      unit.holds = nullptr;
      return;
    }
    sound = false;
    std::printf("without a mutant: \"%s\" fails (status %d)\n", unit.name.c_str(), status);
  });
  for (size_t i = 0; i < units->size(); ++i)
    all.start(i, [&, i] {
      mutants::seen = seen + i * (last + 2);
      allow(most);
      const bool holds = (*units)[i].holds();
      itimerval left{};
      getitimer(ITIMER_PROF, &left);
      seconds[i] = most - double(left.it_value.tv_sec) - double(left.it_value.tv_usec) * 1e-6;
      return holds ? 0 : 1;
    });
  all.finish();
  if (!sound) std::exit(1);
  const auto left_out = [](const Unit& unit) { return unit.holds == nullptr; };
  units->erase(std::remove_if(units->begin(), units->end(), left_out), units->end());
}

// ---- the mutants

struct Mutant {
  int number;
  std::string file;
  std::vector<size_t> units;  // that see it
  std::string outcome, by;
};

// Those first that are most likely to kill in a second; at the start the fast ones.
void put_in_order(std::vector<size_t>* which, const std::vector<Unit>& units,
                  std::map<size_t, int>* kills) {
  const auto kills_in_a_second = [&](size_t i) {
    return (double((*kills)[i]) + 0.1) / (units[i].seconds + 0.02);
  };
  std::stable_sort(which->begin(), which->end(),
                   [&](size_t a, size_t b) { return kills_in_a_second(a) > kills_in_a_second(b); });
}

void run(std::vector<Mutant>* list, const std::vector<Unit>& units, size_t jobs,
         std::ofstream* outcome) {
  const auto write = [outcome](const Mutant& m) {
    *outcome << m.number << '\t' << m.outcome << '\t' << m.by << std::endl;
  };
  uint32_t* const last_unit = shared<uint32_t>(list->size());
  size_t finished = 0;
  std::map<std::string, std::map<size_t, int>> kills;  // by file and unit
  Jobs all(jobs, [&](size_t i, int status) {
    Mutant& m = (*list)[i];
    const std::string& unit = units[m.units[last_unit[i]]].name;
    if (status != 0) ++kills[m.file][m.units[last_unit[i]]];
    m.outcome = status == 0 ? "survived" : "killed";
    m.by = status == 0 ? std::to_string(m.units.size()) + " units"
           : WIFEXITED(status) && WEXITSTATUS(status) == 1 ? unit
           : WIFEXITED(status)                             ? unit + " (sanitizer)"
           : WTERMSIG(status) == SIGPROF
               ? unit + " (time)"
               : unit + " (signal " + std::to_string(WTERMSIG(status)) + ")";
    write(m);
    if (++finished % 100 == 0) std::fprintf(stderr, "%zu mutants\n", finished);
  });
  for (size_t i = 0; i < list->size(); ++i) {
    Mutant& m = (*list)[i];
    if (m.units.empty()) write(m);
    if (m.units.empty()) continue;
    put_in_order(&m.units, units, &kills[m.file]);
    all.start(i, [&, i] {
      const rlimit none{0, 0};
      setrlimit(RLIMIT_CORE, &none);
      mutants::chosen = m.number;
      for (uint32_t k = 0; k < m.units.size(); ++k) {
        const Unit& unit = units[m.units[k]];
        last_unit[i] = k;
        allow(2 + 6 * unit.seconds);
        if (!unit.holds()) return 1;
      }
      return 0;
    });
  }
  all.finish();
}

double number_from(const char* variable, double otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtod(text, nullptr) : otherwise;
}

// The mutants of OUT/mutants.tsv: number, room, file and what else there is.
std::vector<Mutant> mutants_of(const std::string& out) {
  std::vector<Mutant> list;
  std::ifstream table(out + "/mutants.tsv");
  for (std::string number, room, file, rest; std::getline(table, number, '\t');) {
    std::getline(table, room, '\t');
    std::getline(table, file, '\t');
    std::getline(table, rest);
    list.push_back({std::atoi(number.c_str()), file, {}, "survived", "not seen"});
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string out = argc > 1 ? argv[1] : "build/mutants";
  const size_t jobs =
      static_cast<size_t>(number_from("JOBS", double(sysconf(_SC_NPROCESSORS_ONLN))));
  std::vector<Mutant> list = mutants_of(out);
  size_t last = 0;
  for (const Mutant& m : list) last = std::max(last, static_cast<size_t>(m.number));
  if (list.empty()) return std::fprintf(stderr, "no mutants in %s\n", out.c_str()), 2;
  if (argc > 2) {
    std::vector<int> wanted;
    for (int i = 2; i < argc; ++i) wanted.push_back(std::atoi(argv[i]));
    const auto other = [&](const Mutant& m) {
      return std::find(wanted.begin(), wanted.end(), m.number) == wanted.end();
    };
    list.erase(std::remove_if(list.begin(), list.end(), other), list.end());
  }
  std::vector<Unit> units;
  add_cases(&units);
  add_models(&units, static_cast<uint64_t>(number_from("GENERATED", 40)));
  const char* const part = std::getenv("UNITS");
  const auto unwanted = [part](const Unit& unit) {
    return part != nullptr && unit.name.find(part) == std::string::npos;
  };
  units.erase(std::remove_if(units.begin(), units.end(), unwanted), units.end());
  const double start = now();
  record(&units, last, jobs, number_from("UNIT_SECONDS", 1));
  for (Mutant& m : list)
    for (size_t i = 0; i < units.size(); ++i)
      if (units[i].sees[static_cast<size_t>(m.number)] != 0) m.units.push_back(i);
  std::printf("%zu units, recorded in %.0f s\n", units.size(), now() - start);
  std::ofstream times(out + "/units.tsv");
  for (const Unit& unit : units) times << unit.seconds << '\t' << unit.name << '\n';
  times.close();
  std::ofstream outcome(out + "/outcome.tsv");
  run(&list, units, jobs, &outcome);
  std::printf("%zu mutants in %.0f s\n", list.size(), now() - start);
}
