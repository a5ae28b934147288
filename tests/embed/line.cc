// Somebody else's trainer in C++: a straight line fitted on samples of each rank's own, on the
// installed headers. Prints what it has found; all ranks find the same.
#include <cstdio>
#include <cstdlib>
#include <ddpcore/base/prng.h>
#include <ddpcore/checkpoint/safetensors.h>
#include <ddpcore/ddp/ddp.h>
#include <ddpcore/ddp/sampler.h>
#include <ddpcore/world/state.h>
#include <ddprove_ddpcore.h>

namespace
{

const char *lookup(void *, const char *name)
{
    return std::getenv(name);
}

class World
{
  public:
    World()
    {
        ddp_world_config config{};

        config.timeout_ns = 20 * DDP_NS_PER_S;
        config.decorate = ddprove_core_watch;
        status_ = ddp_world_open(&world_, lookup, nullptr, &config, &err_);
    }
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    ~World()
    {
        ddp_world_close(&world_);
    }

    ddp_world *get()
    {
        return &world_;
    }
    ddp_err *err()
    {
        return &err_;
    }
    ddp_status status() const
    {
        return status_;
    }
    const char *describe(ddp_status status)
    {
        ddp_world_describe(&world_, status, &err_);
        return err_.text;
    }

  private:
    ddp_world world_{};
    ddp_err err_{};
    ddp_status status_;
};

// y = 3 x - 1, by steps against the gradient of the squared error of one sample.
ddp_status step(ddp *ddp, ddp_prng *prng, float *line, float *gradient)
{
    const float x = ddp_prng_uniform(prng) * 2 - 1;

    DDP_TRY(ddp_forward_begin(ddp));
    const float error = line[0] * x + line[1] - (3 * x - 1);

    DDP_TRY(ddp_backward_begin(ddp, nullptr));
    gradient[0] = error * x;
    gradient[1] = error;
    DDP_TRY(ddp_grad_ready(ddp, 0));
    DDP_TRY(ddp_backward_end(ddp));
    for (int i = 0; i < 2; i++) {
        line[i] -= 0.3F * gradient[i];
    }
    return DDP_OK;
}

ddp_status train(World &world, float *line)
{
    float gradient[2] = {0, 0};
    ddp_param param{};
    ddp_model model{};
    ddp_config config{};
    ddp *ddp = nullptr;
    ddp_prng prng = ddp_prng_make(world.get()->where.rank, "line");

    param.name = "line";
    param.data = line;
    param.grad = gradient;
    param.elem_count = 2;
    param.ndim = 1;
    param.shape[0] = 2;
    model.params = &param;
    model.param_count = 1;
    DDP_TRY(
        ddp_create(&world.get()->group, world.get()->device, &model, &config, &ddp, world.err()));
    ddp_status status = DDP_OK;

    for (int i = 0; i < 400 && status == DDP_OK; i++) {
        status = step(ddp, &prng, line, gradient);
    }
    ddp_destroy(ddp);
    return status == DDP_OK ? ddp_world_finish(world.get()) : status;
}

} // namespace

int main()
{
    World world;
    float line[2] = {0, 0};
    const ddp_status status = world.status() == DDP_OK ? train(world, line) : world.status();

    if (status != DDP_OK) {
        std::fprintf(stderr, "line: %s\n", world.describe(status));
        return 1;
    }
    ddprove_guest_detach();
    std::printf("line %.4f %.4f\n", static_cast<double>(line[0]), static_cast<double>(line[1]));
    return 0;
}
