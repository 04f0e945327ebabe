#include "ways.h"

namespace cli {

double gain(const Way& a, const Way& b) { return (a.harm - b.harm) / (b.price - a.price); }

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

}  // namespace cli
