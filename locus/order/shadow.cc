// See shadow.h.
#include "locus/order/shadow.h"

#include <algorithm>

namespace locus::order {
namespace {

bool is_before(const Access& first, Lane lane, const VectorClock& now) {
  return first.time == 0 || first.lane == lane || first.time <= now.at(first.lane);
}

/// Whether two accesses to [begin, end), of which the first is remembered there, touch the same byte for sure.
bool share_bytes(const Access& first, const Range& second, std::uint64_t begin, std::uint64_t end) {
  if (second.touches != nullptr) return !first.gaps && (*second.touches)(begin, end);
  return !first.gaps || (second.begin <= begin && end <= second.end);
}

}  // namespace

Cell::Cell() = default;
Cell::Cell(const Cell& other) : write(other.write), read(other.read) {
  if (other.rest != nullptr) rest = std::make_unique<Rest>(*other.rest);
}
Cell& Cell::operator=(const Cell& other) {
  if (this != &other) *this = Cell(other);
  return *this;
}
Cell::Cell(Cell&&) noexcept = default;
Cell& Cell::operator=(Cell&&) noexcept = default;
Cell::~Cell() = default;

const std::vector<Access>& Cell::further_reads() const {
  static const std::vector<Access> none;
  return rest != nullptr ? rest->reads : none;
}

Cell::Rest& Cell::make_rest() {
  if (rest == nullptr) rest = std::make_unique<Rest>();
  return *rest;
}

void Cell::forget_reads() {
  read = Access();
  if (rest == nullptr) return;
  rest->reads.clear();
  if (rest->pieces.empty() && rest->recorded.empty() && rest->attachment == nullptr) rest = nullptr;
}

void Shadow::record(Lane lane) {
  std::vector<Lane>& all = whole_.make_rest().recorded;
  if (std::find(all.begin(), all.end(), lane) == all.end()) all.push_back(lane);
}

const std::vector<Lane>& Shadow::recorded() const {
  static const std::vector<Lane> none;
  return whole_.rest != nullptr ? whole_.rest->recorded : none;
}

const std::shared_ptr<void>& Shadow::attachment() const {
  static const std::shared_ptr<void> none;
  return whole_.rest != nullptr ? whole_.rest->attachment : none;
}

void Shadow::add(Kind kind, Access access, const Range& range, const VectorClock& now, Conflicts* conflicts) {
  access.gaps = range.touches != nullptr;
  if (range.begin >= range.end) return;
  if (range.is_all()) {
    if (!is_split()) return add_to(whole_, kind, access, range, 0, Range::kEnd, now, conflicts);
    for (Piece& piece : pieces()) add_to(piece.cell, kind, access, range, piece.begin, piece.end, now, conflicts);
    if (kind == Kind::kWrite) {
      unite();
      whole_.write = access;
    }
    return;
  }
  split(range.begin);
  split(range.end);
  if (access.gaps) return add_with_gaps(kind, access, range, now, conflicts);
  for (Piece& piece : pieces()) {
    if (piece.begin < range.begin || piece.end > range.end) continue;
    add_to(piece.cell, kind, access, range, piece.begin, piece.end, now, conflicts);
  }
  if (kind == Kind::kWrite) {  // what is written in one go is one piece
    const auto first =
        std::find_if(pieces().begin(), pieces().end(), [&](const Piece& p) { return p.begin == range.begin; });
    const auto last = std::find_if(first, pieces().end(), [&](const Piece& p) { return p.end == range.end; });
    first->end = range.end;
    pieces().erase(first + 1, last + 1);
  }
  if (pieces().size() > kMostPieces) unite();
}

/// An access that leaves bytes of its range alone. A write hides what is known of them; a read is remembered where
/// one piece has all of its range, and nowhere else.
void Shadow::add_with_gaps(Kind kind, const Access& access, const Range& range, const VectorClock& now,
                           Conflicts* conflicts) {
  const auto first =
      std::find_if(pieces().begin(), pieces().end(), [&](const Piece& p) { return p.begin == range.begin; });
  const auto last = std::find_if(first, pieces().end(), [&](const Piece& p) { return p.end == range.end; });
  Cell scratch;
  for (auto piece = first; piece != last + 1; ++piece) {
    scratch = piece->cell;
    add_to(scratch, kind, access, range, piece->begin, piece->end, now, conflicts);
  }
  if (kind == Kind::kWrite) {
    first->end = range.end;
    first->cell = Cell();
    first->cell.write = access;
    pieces().erase(first + 1, last + 1);
  } else if (first == last) {
    first->cell = std::move(scratch);
  }
  if (pieces().size() > kMostPieces) unite();
}

void Shadow::add_to(Cell& cell, Kind kind, const Access& access, const Range& range, std::uint64_t begin,
                    std::uint64_t end, const VectorClock& now, Conflicts* conflicts) {
  const auto judge = [&](Kind first_kind, const Access& first) {
    if (is_before(first, access.lane, now) || !share_bytes(first, range, begin, end)) return;
    conflicts->push_back({first_kind, first, begin, end, 0});
  };
  judge(Kind::kWrite, cell.write);
  if (kind == Kind::kWrite) {
    judge(Kind::kRead, cell.read);
    for (const Access& read : cell.further_reads()) judge(Kind::kRead, read);
  }
  remember(cell, kind, access, now);
}

void Shadow::remember(Cell& cell, Kind kind, const Access& access, const VectorClock& now) {
  if (kind == Kind::kWrite) {
    cell.write = access;
    cell.forget_reads();
    return;
  }
  // A read that this one comes after has nothing more to say, unless it touched other bytes.
  const auto is_covered = [&](const Access& read) {
    return (is_before(read, access.lane, now) && (!access.gaps || read.time == 0)) ||
           (read.lane == access.lane && read.gaps == access.gaps);
  };
  if (cell.rest != nullptr) std::erase_if(cell.rest->reads, is_covered);
  if (is_covered(cell.read)) {
    cell.read = access;
  } else {
    cell.make_rest().reads.push_back(access);
  }
}

void Shadow::inherit(const std::vector<Access>& uses, const Range& range) {
  if (uses.empty() || range.begin >= range.end) return;
  const auto give = [&](Cell& cell) {
    for (const Access& use : uses) {
      if (cell.read.time == 0) {
        cell.read = use;
      } else {
        cell.make_rest().reads.push_back(use);
      }
    }
  };
  if (range.is_all() && !is_split()) return give(whole_);
  split(range.begin);
  split(range.end);
  for (Piece& piece : pieces()) {
    if (range.begin <= piece.begin && piece.end <= range.end) give(piece.cell);
  }
}

/// A piece ends at this byte, and another begins. What touched some bytes of the piece may be in either part.
void Shadow::split(std::uint64_t at) {
  if (!is_split()) {
    Cell cell;
    cell.write = std::exchange(whole_.write, Access());
    cell.read = std::exchange(whole_.read, Access());
    if (!whole_.further_reads().empty()) cell.make_rest().reads = std::exchange(whole_.rest->reads, {});
    whole_.make_rest().pieces.push_back({0, Range::kEnd, std::move(cell)});
  }
  if (at == 0 || at == Range::kEnd) return;
  const auto piece = std::find_if(pieces().begin(), pieces().end(), [&](const Piece& p) { return at < p.end; });
  if (piece->begin == at) return;
  Cell& cell = piece->cell;
  if (cell.write.gaps) cell.write = Access();
  if (cell.read.gaps) cell.read = Access();
  if (cell.rest != nullptr) std::erase_if(cell.rest->reads, [](const Access& read) { return read.gaps; });
  Piece after{at, piece->end, cell};
  piece->end = at;
  pieces().insert(piece + 1, std::move(after));
}

/// No pieces any more, and nothing is known of any byte.
void Shadow::unite() {
  pieces().clear();
  whole_.write = Access();
  whole_.forget_reads();
}

}  // namespace locus::order
