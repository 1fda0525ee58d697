// Streams, events and waits of real cards, told to locus/order: PyTorch calls its GPU trace (torch.cuda._gpu_trace) for
// each, in the thread that makes it. No time and no luck: what the program calls is what counts. Where an order may
// exist that nobody sees (streams of other libraries, captures, collectives) all of this stops for good: what is not
// known is not blamed.
#pragma once

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>

#include "locus/bridge/patched.h"
#include "locus/order/order.h"

namespace locus::bridge {

/// Whether what operators of real cards touch is followed: from a program's second stream on, until something comes
/// that is not understood.
extern std::atomic<bool> g_card_ordering;
inline bool card_ordering() { return g_card_ordering.load(std::memory_order_relaxed); }

/// PyTorch tells of a card's streams from now on.
void listen_to_card();
/// So does what asks through PyTorch's device guard.
void listen_to_guard(Patched<c10::impl::DeviceGuardImplInterface>* guard);
/// Whether anybody still listens, and nothing has come that is not understood.
bool hears_card() noexcept;
/// An order may exist that nobody sees: nothing more is said of streams, to the end.
void stop_card_order() noexcept;
/// Whether that has happened: the report says so.
bool card_order_is_stopped() noexcept;

/// Others who want PyTorch's GPU trace get it, too.
void pass_trace_on();
/// Asked before a race on a real card is reported: whether somebody else in this process can wait for the card.
void set_order_doubt(std::function<bool()> doubt);
/// The GIL is held.
bool order_is_in_doubt();

/// The current device of this thread, and the number of a device's current stream, whoever plays the card.
int device_here();
std::int64_t stream_here(int device);
/// The current device of this thread, and a device's current stream.
int card_device();
c10::Stream card_stream(int device);
/// The lane of a stream; none where it is not known, which stops everything.
std::optional<order::Lane> card_lane(const c10::Stream& stream);
std::optional<order::Lane> card_lane(int device);

/// The host has seen that a stream, or an event, is done, without waiting.
void card_is_done(const c10::Stream& stream);
void card_event_is_done(std::uintptr_t event);
/// The host waits for all devices.
void host_waits_for_cards();
/// How often this thread has waited for a card.
extern constinit thread_local std::uint32_t t_card_waits;
/// The time of the device's default stream, for memory that is filled before anything is followed; 0: followed now.
order::Time card_birth_time(int device) noexcept;

}  // namespace locus::bridge
