// What is remembered of a piece of memory: who wrote it last, who has read it since. One record serves a whole storage
// until somebody touches a part of it; then it is split into ranges of bytes. FastTrack's way: most memory is read by
// one lane at a time, and one record of a read is enough (Flanagan and Freund, PLDI 2009).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "locus/order/clock.h"

namespace locus::order {

enum class Kind : std::uint8_t { kRead, kWrite };

/// What the caller wants to know again when two accesses conflict. Nothing here looks at it.
struct Note {
  std::uint32_t site = 0;
  std::uint16_t op = 0;
  std::uint8_t argument = 0;
  bool operator==(const Note&) const = default;
};

/// One read or write that was seen. `time` 0: none.
struct Access {
  Time time = 0;
  std::uint32_t site = 0;
  Lane lane = 0;
  std::uint16_t op = 0;
  std::uint8_t argument = 0;
  bool gaps = false;   ///< it touched some bytes of its range, not all
  bool freed = false;  ///< it was made to a tensor that has been freed, and had this memory before

  Note note() const { return {site, op, argument}; }
};

/// The bytes of an access, from the beginning of the storage. One that goes to its end says kEnd.
struct Range {
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  std::uint64_t begin = 0, end = kEnd;
  /// Whether one of the bytes [begin, end) is touched; none: all are.
  const std::function<bool(std::uint64_t begin, std::uint64_t end)>* touches = nullptr;

  bool is_all() const { return begin == 0 && end == kEnd && touches == nullptr; }
};

/// Two accesses to the same bytes, at least one of them a write, that nothing orders. The second is the one at hand.
struct Conflict {
  Kind first_kind = Kind::kWrite;
  Access first;
  std::uint64_t begin = 0, end = Range::kEnd;
  std::uint32_t touch = 0;  ///< which of a work's touches is the second
};
using Conflicts = std::vector<Conflict>;

struct Piece;

/// What is known of some bytes.
struct Cell {
  /// What few have.
  struct Rest {
    std::vector<Access> reads;         ///< further ones, of other lanes, that are not ordered with it
    std::vector<Piece> pieces;         ///< of a whole storage that is split: in order, without holes
    std::vector<Lane> recorded;        ///< of a whole storage: see Shadow::record()
    std::shared_ptr<void> attachment;  ///< of a whole storage: see Shadow::attachment()
  };
  Access write;  ///< the last one
  Access read;   ///< since then
  std::unique_ptr<Rest> rest;

  Cell();
  Cell(const Cell& other);
  Cell& operator=(const Cell& other);
  Cell(Cell&&) noexcept;
  Cell& operator=(Cell&&) noexcept;
  ~Cell();
  bool empty() const { return write.time == 0 && read.time == 0 && further_reads().empty(); }
  const std::vector<Access>& further_reads() const;
  Rest& make_rest();
  /// No read has been seen since the last write.
  void forget_reads();
};
struct Piece {
  std::uint64_t begin, end;
  Cell cell;
};

class Shadow {
 public:
  /// Pieces beyond this are forgotten: what is not known is not blamed.
  static constexpr std::size_t kMostPieces = 256;

  /// Remembers the access, and adds what it conflicts with. `now` is the clock of the access's lane.
  void add(Kind kind, Access access, const Range& range, const VectorClock& now, Conflicts* conflicts);
  /// Uses of a freed tensor that had these bytes before: later writes must come after them.
  void inherit(const std::vector<Access>& uses, const Range& range);
  /// Calls `visit(const Cell&, begin, end)` for all that is known.
  template <class Visit>
  void each(Visit&& visit) const {
    if (!is_split()) return visit(whole_, std::uint64_t{0}, Range::kEnd);
    for (const Piece& piece : whole_.rest->pieces) visit(piece.cell, piece.begin, piece.end);
  }
  bool is_split() const { return whole_.rest != nullptr && !whole_.rest->pieces.empty(); }
  /// Whether all that is known was done by one lane.
  bool is_only_of(Lane lane) const {
    const auto is_its = [lane](const Access& access) { return access.time == 0 || access.lane == lane; };
    return !is_split() && whole_.further_reads().empty() && is_its(whole_.write) && is_its(whole_.read);
  }

  /// The allocator itself waits for what the lane has when the memory is freed.
  void record(Lane lane);
  const std::vector<Lane>& recorded() const;
  /// What the caller keeps with it. Nothing here looks at it.
  const std::shared_ptr<void>& attachment() const;
  void attach(std::shared_ptr<void> what) { whole_.make_rest().attachment = std::move(what); }

 private:
  std::vector<Piece>& pieces() { return whole_.rest->pieces; }
  void split(std::uint64_t at);
  void unite();
  void add_with_gaps(Kind kind, const Access& access, const Range& range, const VectorClock& now, Conflicts* conflicts);
  static void add_to(Cell& cell, Kind kind, const Access& access, const Range& range, std::uint64_t begin,
                     std::uint64_t end, const VectorClock& now, Conflicts* conflicts);
  static void remember(Cell& cell, Kind kind, const Access& access, const VectorClock& now);

  Cell whole_;  ///< empty while there are pieces
};

}  // namespace locus::order
