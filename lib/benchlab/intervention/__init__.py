"""Intervention: limits lowered one at a time inside one steady run, and what throughput does then.

Evidence says that a resource was busy. An intervention says what more or less of it is worth: the
elasticity of throughput to each limit, d ln TPS / d ln limit. The limit that is in force is lowered and
not what is in use of it, because the question is whether that limit binds: lowering one that has room
changes nothing, which is the answer, while a cut into what is in use would only make a new bottleneck.
"""
