"""The topology, tested without a broker."""

from topology import topology

from streamsapp import Serdes
from streamsapp.testing import TopologyTestDriver

text, json = Serdes.string(), Serdes.json()


def test_orders_have_the_names_of_their_customers() -> None:
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("customers", text, json).pipe_input("c1", {"name": "Jane"})
        orders = driver.create_input_topic("orders", text, json)
        orders.pipe_input("c1", {"item": "tea"})
        orders.pipe_input("c2", {"item": "milk"})
        named = driver.create_output_topic("named-orders", text, json).read_key_values()

    assert named == [("c1", {"item": "tea", "customer": "Jane"}), ("c2", {"item": "milk", "customer": None})]
