#include "ways.h"

namespace cli {
namespace {

// Shares of the price of a way that are its time, where both bytes and time are limited.
constexpr double kShares[] = {0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1};

// What each unit of price brings from a to b, which costs more.
double gain(const Way& a, const Way& b) { return (a.harm - b.harm) / (b.price - a.price); }

// The cheapest way of each, then the step that brings most for its price, as long as it fits
// (the continuous knapsack's order: Dantzig 1957). A price is in bytes; a share of it is time.
// False where the cheapest ways do not fit.
bool allot_by(double share, const vector<vector<Way>>& matrices, const Room& room,
              vector<Way>* chosen, Least* least) {
  const double rate = share == 0 ? 0 : double(room.exact) / room.seconds;
  vector<vector<Way>> hulls;
  uint64_t total = room.fixed;
  double seconds = 0;
  const auto fits = [&] {
    return total <= room.bytes && (room.seconds == 0 || seconds <= room.seconds);
  };
  struct Step {
    double gain;
    size_t matrix, way;
  };
  vector<Step> steps;
  chosen->clear();
  for (vector<Way> ways : matrices) {
    for (Way& way : ways) way.price = (1 - share) * double(way.bytes) + share * rate * way.seconds;
    hulls.push_back(hull(ways));
    const vector<Way>& on = hulls.back();
    chosen->push_back(on[0]);
    total += padded(on[0].bytes);
    seconds += on[0].seconds;
    for (size_t k = 1; k < on.size(); ++k)
      steps.push_back({gain(on[k - 1], on[k]), hulls.size() - 1, k});
  }
  least->bytes = min(least->bytes, total);
  if (total <= room.bytes) least->seconds = min(least->seconds, seconds);
  if (!fits()) return false;
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    if (a.gain != b.gain) return a.gain > b.gain;
    return a.matrix != b.matrix ? a.matrix < b.matrix : a.way < b.way;
  });
  for (const Step& step : steps) {
    Way& is = (*chosen)[step.matrix];
    const vector<Way>& on = hulls[step.matrix];
    if (is.type != on[step.way - 1].type) continue;  // a step before it did not fit
    const Way& next = on[step.way];
    total += padded(next.bytes) - padded(is.bytes);
    seconds += next.seconds - is.seconds;
    if (fits()) {
      is = next;
      continue;
    }
    total -= padded(next.bytes) - padded(is.bytes);
    seconds -= next.seconds - is.seconds;
  }
  return true;
}

}  // namespace

vector<Way> hull(vector<Way> ways) {
  std::sort(ways.begin(), ways.end(), [](const Way& a, const Way& b) {
    return a.price != b.price ? a.price < b.price : a.harm < b.harm;
  });
  vector<Way> out;
  for (const Way& way : ways) {
    if (!out.empty() && (way.harm >= out.back().harm || way.price <= out.back().price)) continue;
    while (out.size() > 1 && gain(out.back(), way) >= gain(out[out.size() - 2], out.back()))
      out.pop_back();
    out.push_back(way);
  }
  return out;
}

bool allot(const vector<vector<Way>>& matrices, const Room& room, vector<Way>* chosen,
           Least* least) {
  bool found = false;
  double harm = 0;
  vector<Way> ways;
  for (const double share : kShares) {
    // without a limit of the time, or of the bytes, the other is the price
    if (share != (room.seconds == 0 ? 0 : room.bytes == UINT64_MAX ? 1 : share)) continue;
    if (!allot_by(share, matrices, room, &ways, least)) continue;
    double sum = 0;
    for (const Way& way : ways) sum += way.harm;
    if (found && sum >= harm) continue;
    found = true;
    harm = sum;
    *chosen = ways;
  }
  return found;
}

}  // namespace cli
