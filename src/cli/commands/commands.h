// cli: the commands. Each takes its options and returns the exit status: 0 done, 1 the model or the
// data is bad, 2 the command line.
#pragma once
#include "../options/args.h"

namespace cli {

int run(const Options& options);
int embed(const Options& options);
int fill(const Options& options);
int classify(const Options& options);
int tag(const Options& options);
int answer(const Options& options);
int rank(const Options& options);
int chat(const Options& options);
int tokenize(const Options& options);
int inspect(const Options& options);
int verify(const Options& options);
int score(const Options& options);
int bench(const Options& options);
int quantize(const Options& options);

}  // namespace cli
