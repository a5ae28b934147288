/* Less than a NCCL: a library with nothing of it but, if VERSION is given, ncclGetVersion. */
#ifdef VERSION
int ncclGetVersion(int *version);
int ncclGetVersion(int *version)
{
    *version = VERSION;
    return 0;
}
#else
int nccl_part(void);
int nccl_part(void)
{
    return 0;
}
#endif
