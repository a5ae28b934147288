/* Gloo's all-reduce as a plug-in: over gloo's own sockets on the loopback, with the algorithm that
 * GLOO_ALLREDUCE names ("ring", "bcube"; else gloo's own choice). In C++, since that is the only
 * interface that gloo has.
 *
 *   c++ -shared -fPIC -I HEADERS -o gloo.so gloo.cc -lgloo */
#include <cstdlib>
#include <cstring>
#include <ddprove_coll.h>
#include <exception>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/types.h>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

/* Before they connect, all ranks set a value each, as often, and then ask for those of the others.
 * So whoever sets one hands it to all, and takes theirs. */
class HostStore : public gloo::rendezvous::Store
{
  public:
    explicit HostStore(const ddprove_coll_host *host) : host_(host)
    {
    }

    void set(const std::string &key, const std::vector<char> &data) override
    {
        std::vector<char> mine(key.begin(), key.end());

        mine.push_back('\0');
        mine.insert(mine.end(), data.begin(), data.end());
        values_[key] = data;
        for (uint32_t i = 1; i < host_->size; i++) {
            take((host_->rank + i) % host_->size, mine,
                 (host_->rank + host_->size - i) % host_->size);
        }
    }

    std::vector<char> get(const std::string &key) override
    {
        return values_.at(key);
    }

    void wait(const std::vector<std::string> &) override
    {
    }

  private:
    void take(uint32_t to, const std::vector<char> &mine, uint32_t from)
    {
        uint64_t sent = mine.size();
        uint64_t got = 0;

        swap(to, &sent, sizeof sent, from, &got, sizeof got);
        std::vector<char> theirs(got);
        swap(to, mine.data(), sent, from, theirs.data(), got);
        std::string key(theirs.data());
        values_[key].assign(theirs.begin() + static_cast<long>(key.size()) + 1, theirs.end());
    }

    void swap(uint32_t to, const void *out, uint64_t out_bytes, uint32_t from, void *in,
              uint64_t in_bytes)
    {
        if (ddprove_coll_exchange(host_, to, out, out_bytes, from, in, in_bytes) !=
            DDPROVE_COLL_OK) {
            throw std::runtime_error("a rank has ended");
        }
    }

    const ddprove_coll_host *host_;
    std::map<std::string, std::vector<char>> values_;
};

struct state {
    std::shared_ptr<gloo::rendezvous::Context> context;
    gloo::AllreduceOptions::Algorithm algorithm;
};

gloo::AllreduceOptions::Algorithm algorithm_of(const char *name)
{
    using Options = gloo::detail::AllreduceOptionsImpl;

    if (name != nullptr && std::strcmp(name, "ring") == 0) {
        return Options::RING;
    }
    return name != nullptr && std::strcmp(name, "bcube") == 0 ? Options::BCUBE
                                                              : Options::UNSPECIFIED;
}

int open_gloo(const ddprove_coll_host *host, void **out_self)
{
    try {
        auto made = std::make_unique<state>();
        gloo::transport::tcp::attr where("127.0.0.1");
        auto device = gloo::transport::tcp::CreateDevice(where);
        HostStore store(host);

        made->context = std::make_shared<gloo::rendezvous::Context>(static_cast<int>(host->rank),
                                                                    static_cast<int>(host->size));
        made->context->connectFullMesh(store, device);
        /* Whoever closes at once must not cut off those that still connect. */
        store.set("connected", {});
        made->algorithm = algorithm_of(std::getenv("GLOO_ALLREDUCE"));
        *out_self = made.release();
        return DDPROVE_COLL_OK;
    } catch (const std::exception &) {
        return DDPROVE_COLL_FAILED;
    }
}

void close_gloo(void *self)
{
    delete static_cast<state *>(self);
}

template <typename T> gloo::AllreduceOptions::Func function_of(uint32_t op)
{
    using binary = void (*)(void *, const void *, const void *, size_t);

    switch (op) {
    case DDPROVE_COLL_SUM:
        return static_cast<binary>(&gloo::sum<T>);
    case DDPROVE_COLL_PROD:
        return static_cast<binary>(&gloo::product<T>);
    case DDPROVE_COLL_MAX:
        return static_cast<binary>(&gloo::max<T>);
    default:
        return static_cast<binary>(&gloo::min<T>);
    }
}

template <typename T> int reduce(state *self, const ddprove_coll_call *call)
{
    gloo::AllreduceOptions options(self->context);
    auto *output = static_cast<T *>(call->output);

    if (call->input != call->output) {
        options.setInput(static_cast<T *>(const_cast<void *>(call->input)), call->count);
    }
    options.setOutput(output, call->count);
    options.setAlgorithm(self->algorithm);
    options.setReduceFunction(function_of<T>(call->op));
    gloo::allreduce(options);
    return DDPROVE_COLL_OK;
}

int run(void *self, const ddprove_coll_call *call)
{
    try {
        switch (call->dtype) {
        case DDPROVE_COLL_F32:
            return reduce<float>(static_cast<state *>(self), call);
        case DDPROVE_COLL_F16:
            return reduce<gloo::float16>(static_cast<state *>(self), call);
        case DDPROVE_COLL_F64:
            return reduce<double>(static_cast<state *>(self), call);
        case DDPROVE_COLL_I32:
            return reduce<int32_t>(static_cast<state *>(self), call);
        case DDPROVE_COLL_I64:
            return reduce<int64_t>(static_cast<state *>(self), call);
        case DDPROVE_COLL_U8:
            return reduce<uint8_t>(static_cast<state *>(self), call);
        default:
            return DDPROVE_COLL_UNSUPPORTED;
        }
    } catch (const std::exception &) {
        return DDPROVE_COLL_FAILED;
    }
}

} // namespace

extern const ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    DDPROVE_COLL_OPAQUE_VERSION,
    sizeof(ddprove_coll_opaque),
    "gloo",
    DDPROVE_COLL_ALL_REDUCE,
    DDPROVE_COLL_SAME_BITS,
    0,
    open_gloo,
    close_gloo,
    run,
    nullptr,
    nullptr,
    nullptr, /* closeConnections does not wake whoever waits; it ends with its time-out */
};
